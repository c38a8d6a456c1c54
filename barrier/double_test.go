// SPDX-License-Identifier: Apache-2.0

package barrier_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/barrier"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestMembersEnterTogetherAndLeaveTogetherRoundAfterRound(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q, r := s.process(), s.process(), s.process()
		for number := range int64(3) {
			a, b := p.enter(s.Context(), 3), q.enter(s.Context(), 3)
			a.mustWait(2 * timeout)
			b.mustWait(0)
			c := r.enter(s.Context(), 3)
			first, second, third := a.entered(), b.entered(), c.entered()
			require.Equal(s, number+1, first.Number())
			require.Equal(s, number+1, third.Number())
			require.True(s, first.State().Registered)
			leaving := leave(first)
			time.Sleep(2 * timeout)
			s.mustWait(leaving)
			also := leave(second)
			time.Sleep(timeout)
			s.mustWait(leaving)
			s.mustWait(also)
			s.must(third.Leave(s.Context()))
			s.mustReturn(leaving)
			s.mustReturn(also)
		}
	})
}

func TestSlowMemberOfOneRoundKeepsTheNextFromBeginning(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		a, b := p.enter(s.Context(), 2), q.enter(s.Context(), 2)
		fast, slow := a.entered(), b.entered()
		leaving := leave(fast)
		others := []entering{s.process().enter(s.Context(), 2), s.process().enter(s.Context(), 2)}
		time.Sleep(3 * timeout)
		s.mustWait(leaving)
		for _, e := range others {
			e.mustWait(0)
		}
		s.must(slow.Leave(s.Context()))
		s.mustReturn(leaving)
		for _, e := range others {
			require.Equal(s, int64(2), e.entered().Number())
		}
	})
}

func TestMembersBeyondTheSizeWaitForTheNextRound(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		entered := make(chan *barrier.Round, 7)
		for range 7 {
			d := s.process().double(2)
			go func() {
				if r, err := d.Enter(s.Context()); err == nil {
					entered <- r
				}
			}()
		}
		next := func() *barrier.Round {
			select {
			case r := <-entered:
				return r
			case <-time.After(10 * timeout):
				require.Fail(s, "not entered")
				return nil
			}
		}
		for number := range int64(3) {
			first, second := next(), next()
			require.Equal(s, number+1, first.Number())
			require.Equal(s, number+1, second.Number())
			time.Sleep(2 * timeout)
			require.Empty(s, entered)
			leaving := leave(first)
			s.must(second.Leave(s.Context()))
			s.mustReturn(leaving)
		}
		time.Sleep(2 * timeout)
		require.Empty(s, entered, "one is left over")
		_, err := s.process().double(1).Enter(s.Context())
		require.ErrorContains(s, err, "size is 1 in this process and 2 in "+path)
	})
}

func TestMemberThatDiesBeforeAllHaveEnteredIsNotCounted(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		p.enter(s.Context(), 2)
		time.Sleep(timeout / 8)
		p.link.Refuse(true)
		p.link.Reset()
		time.Sleep(2 * timeout)
		b := q.enter(s.Context(), 2)
		b.mustWait(2 * timeout)
		r := s.process().enter(s.Context(), 2)
		require.Equal(s, b.entered().Number(), r.entered().Number())
	})
}

func TestMemberThatGaveUpIsCountedUntilItsNodeIsDeleted(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		d, err := barrier.NewDouble(p.client, path, 2, &barrier.DoubleOptions{ReleaseTimeout: timeout / 8})
		s.must(err)
		time.AfterFunc(timeout/16, func() { p.link.Refuse(true); p.link.Reset() })
		_, err = d.Enter(s.within(timeout / 8))
		require.ErrorIs(s, err, context.DeadlineExceeded)
		require.ErrorIs(s, err, recipes.ErrUncertain)
		first := q.enter(s.Context(), 2).entered()
		p.link.Refuse(false)
		s.must(first.Leave(s.Context()))
		q.enter(s.Context(), 2).mustWait(2 * timeout)
	})
}

func TestMemberThatDiesInTheRoundDoesNotKeepTheOthers(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		a, b := p.enter(s.Context(), 2), q.enter(s.Context(), 2)
		a.entered()
		leaving := leave(b.entered())
		time.Sleep(timeout / 8)
		p.link.Refuse(true)
		p.link.Reset()
		time.Sleep(timeout / 2)
		s.mustWait(leaving)
		began := time.Now()
		s.mustReturn(leaving)
		require.Less(s, time.Since(began), timeout+timeout/4+timeout/2, "T and a tick, and T/2 until that is read")
	})
}

func TestRoundWhoseMembersHaveAllDiedEnds(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		a, b := p.enter(s.Context(), 2), q.enter(s.Context(), 2)
		a.entered()
		b.entered()
		p.client.Close()
		q.client.Close()
		c, d := s.process().enter(s.Context(), 2), s.process().enter(s.Context(), 2)
		require.Equal(s, int64(2), c.entered().Number())
		require.Equal(s, int64(2), d.entered().Number())
	})
}

func TestMemberWhoseSessionEndsWaitsOnInTheNextOne(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		a := p.enter(s.Context(), 2)
		time.Sleep(timeout / 8)
		s.must(s.Expire(s.Context(), p.client.SessionID()))
		a.mustWait(timeout)
		b := q.enter(s.Context(), 2)
		first, second := a.entered(), b.entered()
		s.must(s.Expire(s.Context(), q.client.SessionID()))
		time.Sleep(timeout / 2)
		require.True(s, second.State().Registered)
		leaving := leave(first)
		time.Sleep(2 * timeout)
		s.mustWait(leaving)
		s.must(second.Leave(s.Context()))
		s.mustReturn(leaving)
	})
}

func TestMemberThatRegistersAgainCompletesTheRound(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		a := p.enter(s.Context(), 2)
		time.Sleep(timeout / 8)
		p.link.Refuse(true)
		p.link.Reset()
		time.Sleep(timeout + timeout/2) // its session expires
		b := q.enter(s.Context(), 2)
		b.mustWait(timeout / 4)
		p.link.Refuse(false)
		require.Equal(s, a.entered().Number(), b.entered().Number())
	})
}

func TestNamespaceAppliesToBothBarriers(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		client, err := recipes.Connect(s.Context(), s.Addrs(), &recipes.Options{SessionTimeout: timeout, Dial: s.Link().Dial, Namespace: "/app"})
		s.must(err)
		defer client.Close()
		b, err := barrier.New(client, "/b", nil)
		s.must(err)
		s.must(b.Set(s.Context()))
		_, _, err = s.Get("/app/b")
		s.must(err)
		d, err := barrier.NewDouble(client, "/d", 1, nil)
		s.must(err)
		r, err := d.Enter(s.Context())
		s.must(err)
		require.Equal(s, "/app/b", b.Path())
		require.Equal(s, "/app/d", d.Path())
		require.Equal(s, 1, d.Size())
		_, _, err = s.Get(r.Path())
		s.must(err)
		s.must(r.Leave(s.Context()))
	})
}

func TestCancelledEnterLeavesNoNode(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p := s.process()
		_, err := p.double(2).Enter(s.within(timeout))
		require.ErrorIs(s, err, context.DeadlineExceeded)
		require.ErrorContains(s, err, "enter: wait "+path)
		require.Zero(s, p.client.OutstandingNodes())
		e := s.process().enter(s.Context(), 2)
		e.mustWait(2 * timeout)
	})
}

func TestLeaveWhoseContextIsDoneLeavesAndCanWaitAgain(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		a, b := p.enter(s.Context(), 2), q.enter(s.Context(), 2)
		first, second := a.entered(), b.entered()
		done, cancel := context.WithCancel(s.Context())
		cancel()
		require.ErrorIs(s, first.Leave(done), context.Canceled)
		_, _, err := s.Get(first.Path())
		require.ErrorContains(s, err, "does not exist")
		again := leave(first)
		time.Sleep(timeout)
		s.mustWait(again)
		s.must(second.Leave(s.Context()))
		s.mustReturn(again)
		s.must(first.Leave(s.Context()))
	})
}

func TestSizesThatDifferAreAnErrorThatShowsBoth(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		a := p.enter(s.Context(), 2)
		time.Sleep(timeout / 8)
		_, err := q.double(3).Enter(s.Context())
		var size *barrier.SizeError
		require.ErrorAs(s, err, &size)
		require.Equal(s, barrier.SizeError{Path: path, Size: 3, Stored: 2}, *size)
		require.ErrorContains(s, err, "size is 3 in this process and 2 in "+path)
		a.mustWait(timeout)
	})
}

func TestSizeCanBeChangedWhenNoMemberIsThere(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		_, err := p.double(3).Enter(s.within(timeout))
		require.ErrorIs(s, err, context.DeadlineExceeded)
		a, b := p.enter(s.Context(), 2), q.enter(s.Context(), 2)
		require.Equal(s, a.entered().Number(), b.entered().Number())
	})
}

func TestMemberThatFindsAnotherSizeAfterItsSessionHasEndedIsRefused(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		a := p.enter(s.Context(), 2)
		time.Sleep(timeout / 8)
		p.link.Refuse(true)
		p.link.Reset()
		time.Sleep(timeout + timeout/2) // its session expires
		b := q.enter(s.Context(), 3)
		b.mustWait(timeout / 4)
		p.link.Refuse(false)
		select {
		case err := <-a.err:
			require.ErrorContains(s, err, "size is 2 in this process and 3 in "+path)
		case <-time.After(10 * timeout):
			require.Fail(s, "not returned")
		}
		require.Zero(s, p.client.OutstandingNodes())
	})
}

func TestBarrierThatAnOperatorDeletesIsEnteredAnewAndCannotBeLeft(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		a, b := p.enter(s.Context(), 2), q.enter(s.Context(), 2)
		first := a.entered()
		b.entered()
		s.must(s.Delete(path + "/state"))
		require.ErrorIs(s, first.Leave(s.Context()), recipes.ErrDeleted)
		c := p.enter(s.Context(), 2)
		c.mustWait(timeout) // the node of the other member is one of another barrier
		d := q.enter(s.Context(), 2)
		require.Equal(s, c.entered().Number(), d.entered().Number())
	})
}

func TestMemberThatWaitsWhenAnOperatorDeletesTheBarrierWaitsInTheNewOne(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		a := p.enter(s.Context(), 2)
		time.Sleep(timeout / 8)
		s.must(s.Delete(path + "/state"))
		a.mustWait(timeout)
		b := q.enter(s.Context(), 2)
		require.Equal(s, a.entered().Number(), b.entered().Number())
	})
}

func TestNodeThatHoldsSomethingElseIsRefused(t *testing.T) {
	for _, data := range []string{"", "theirs", `{"format":2}`, `{"format":1,"size":0}`, `{"format":1,"size":2,"members":["a"]}`} {
		bubble(t, zktest.Options{}, func(s servers) {
			s.must(s.Create("/jobs", nil))
			s.must(s.Create(path, nil))
			s.must(s.Create(path+"/state", []byte(data)))
			_, err := s.process().double(2).Enter(s.Context())
			require.ErrorContains(s, err, "enter: read "+path+"/state: the node")
		})
	}
}

func TestInvalidArgumentOfDoubleIsAnErrorThatNamesIt(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p := s.process()
		for _, c := range []struct {
			client *recipes.Client
			path   string
			n      int
			opts   *barrier.DoubleOptions
			want   string
		}{
			{nil, path, 2, nil, "client is nil"},
			{p.client, "b", 2, nil, `path "b" is not absolute`},
			{p.client, "/", 2, nil, "is the root"},
			{p.client, path, 0, nil, "size of 0 members: must be 1 to 4096"},
			{p.client, path, -1, nil, "size of -1 members"},
			{p.client, path, barrier.MaxSize + 1, nil, "size of 4097 members"},
			{p.client, path, 2, &barrier.DoubleOptions{ReleaseTimeout: -1}, "release timeout -1ns is negative"},
		} {
			_, err := barrier.NewDouble(c.client, c.path, c.n, c.opts)
			require.ErrorContains(s, err, "new double barrier")
			require.ErrorContains(s, err, c.want)
		}
		_, err := p.double(1).Enter(nil) //nolint:staticcheck // the test's subject
		require.ErrorContains(s, err, "context is nil")
		r, err := p.double(1).Enter(s.Context())
		s.must(err)
		require.ErrorContains(s, r.Leave(nil), "context is nil") //nolint:staticcheck // the test's subject
		s.must(r.Leave(s.Context()))
	})
}

// Where parents are persistent, no server deletes the node of a round.
func TestRoundsLeaveNoNodes(t *testing.T) {
	for _, n := range []int{1, 3} {
		bubble(t, zktest.Options{}, func(s servers) {
			var members []*process
			for range n {
				members = append(members, s.processWith(recipes.Options{PersistentParents: true}))
			}
			for range 100 {
				var waiting []entering
				for _, p := range members {
					waiting = append(waiting, p.enter(s.Context(), n))
				}
				var leaving []<-chan error
				for _, e := range waiting {
					leaving = append(leaving, leave(e.entered()))
				}
				for _, l := range leaving {
					s.mustReturn(l)
				}
			}
			names, err := s.Children(path)
			s.must(err)
			require.Equal(s, []string{"state"}, names)
		})
	}
}
