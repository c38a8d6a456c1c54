// SPDX-License-Identifier: Apache-2.0

package barrier_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/barrier"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestWaitReturnsWhenTheBarrierIsRemoved(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		s.must(q.Wait(s.Context()))
		s.must(p.Set(s.Context()))
		s.must(p.Set(s.Context()))
		waiting := background(func() error { return q.Wait(s.Context()) })
		time.Sleep(3 * timeout)
		s.mustWait(waiting)
		s.must(p.Remove(s.Context()))
		s.mustReturn(waiting)
		s.must(p.Remove(s.Context()))
		s.must(p.Wait(s.Context()))
	})
}

func TestBarrierOutlivesTheProcessThatSetIt(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		s.must(p.Set(s.Context()))
		p.client.Close()
		require.ErrorIs(s, q.Wait(s.within(3*timeout)), context.DeadlineExceeded)
		s.must(q.Remove(s.Context()))
		s.must(q.Wait(s.Context()))
	})
}

func TestWaitAtServerThatLagsDoesNotPassBarrierThatIsSet(t *testing.T) {
	bubble(t, zktest.Options{Servers: 3}, func(s servers) {
		p, q := s.process(s.Addrs()[0]), s.process(s.Addrs()[2])
		s.Servers()[2].Lag(timeout / 2)
		s.must(p.Set(s.Context()))
		require.ErrorIs(s, q.Wait(s.within(timeout)), context.DeadlineExceeded)
	})
}

func TestWaitAtServerThatIsIsolatedDoesNotPassBarrierThatIsSet(t *testing.T) {
	bubble(t, zktest.Options{Servers: 3}, func(s servers) {
		p, q := s.process(s.Addrs()[0]), s.process(s.Addrs()[2])
		s.must(s.Servers()[2].Isolate(s.Context()))
		s.must(p.Set(s.Context()))
		require.ErrorIs(s, q.Wait(s.within(8*timeout)), context.DeadlineExceeded)
	})
}

func TestWaiterOfBarrierThatIsSetAgainImmediatelyPasses(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		s.must(p.Set(s.Context()))
		waiting := background(func() error { return q.Wait(s.Context()) })
		time.Sleep(timeout / 8)
		q.link.Refuse(true)
		q.link.Reset()
		s.must(p.Remove(s.Context()))
		s.must(p.Set(s.Context()))
		q.link.Refuse(false)
		s.mustReturn(waiting)
		require.ErrorIs(s, q.Wait(s.within(timeout)), context.DeadlineExceeded)
	})
}

func TestWaitContinuesAcrossSessions(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		s.must(p.Set(s.Context()))
		waiting := background(func() error { return q.Wait(s.Context()) })
		time.Sleep(timeout / 8)
		s.must(s.Expire(s.Context(), q.client.SessionID()))
		time.Sleep(timeout)
		s.mustWait(waiting)
		s.must(p.Remove(s.Context()))
		s.mustReturn(waiting)
	})
}

func TestRemoveWhoseAnswerIsLostLeavesBarrierThatWasSetSince(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		s.must(p.Set(s.Context()))
		// The answer to the delete is lost, and before the next request another process sets the barrier again.
		p.link.Intercept(zktest.Rule{Op: "delete", Path: path, Times: 1, Lose: zktest.ToClient})
		p.link.Intercept(zktest.Rule{Op: "multi", Skip: 1, Times: 1, Before: func(zktest.Request) { s.must(s.Create(path, nil)) }})
		s.must(p.Remove(s.Context()))
		require.ErrorIs(s, q.Wait(s.within(timeout)), context.DeadlineExceeded)
	})
}

func TestSetWhoseAnswerIsLostSetsAgainBarrierThatWasRemovedSince(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		p.link.Intercept(zktest.Rule{Op: "create", Path: path, Skip: 1, Times: 1, Lose: zktest.ToClient})
		repeated := p.link.Intercept(zktest.Rule{Op: "create", Path: path, Skip: 2, Times: 1, Before: func(zktest.Request) { s.must(q.Remove(s.Context())) }})
		s.must(p.Set(s.Context()))
		require.Equal(s, 1, repeated.Fired())
		require.ErrorIs(s, q.Wait(s.within(timeout)), context.DeadlineExceeded)
	})
}

func TestSetAndRemoveSucceedWithAnyConnectionLost(t *testing.T) {
	for n := 1; n < 12; n++ {
		for _, after := range []bool{false, true} {
			bubble(t, zktest.Options{}, func(s servers) {
				p, q := s.process(), s.process()
				lose := p.link.LoseRequest
				if after {
					lose = p.link.LoseReply
				}
				lose(n)
				s.must(p.Set(s.Context()))
				require.ErrorIs(s, q.Wait(s.within(timeout/4)), context.DeadlineExceeded)
				s.must(p.Remove(s.Context()))
				s.must(q.Wait(s.within(timeout / 4)))
			})
		}
	}
}

func TestSetWhoseContextEndsBeforeTheAnswerIsUncertain(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p := s.process()
		p.link.Delay(timeout / 16)
		err := p.Set(s.within(timeout / 32))
		require.ErrorIs(s, err, recipes.ErrUncertain)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		require.ErrorContains(s, err, "set barrier: create "+path)
		done, cancel := context.WithCancel(s.Context())
		cancel()
		require.NotErrorIs(s, p.Remove(done), recipes.ErrUncertain, "nothing was sent")
	})
}

func TestNodeWithChildrenIsNotRemoved(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p := s.process()
		s.must(p.Set(s.Context()))
		s.must(s.Create(path+"/other", nil))
		err := p.Remove(s.Context())
		require.ErrorIs(s, err, zk.ErrNotEmpty)
		require.ErrorContains(s, err, "remove barrier: delete "+path)
	})
}

func TestCloseOfTheClientEndsWait(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p := s.process()
		s.must(p.Set(s.Context()))
		waiting := background(func() error { return p.Wait(s.Context()) })
		time.Sleep(timeout)
		p.client.Close()
		require.ErrorIs(s, <-waiting, recipes.ErrClosed)
		require.ErrorIs(s, p.Set(s.Context()), recipes.ErrClosed)
	})
}

func TestThousandWaitersCostTwoRequestsEachAndNoneToWake(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q := s.process(), s.process()
		s.must(p.Set(s.Context()))
		counted := q.link.Intercept(zktest.Rule{When: func(r zktest.Request) bool { return r.Op != "ping" }})
		var waiting []<-chan error
		for range 1000 {
			waiting = append(waiting, background(func() error { return q.Wait(s.Context()) }))
		}
		time.Sleep(timeout)
		require.LessOrEqual(s, counted.Fired(), 1000+1, "a check each, and one watch for all")
		joined := counted.Fired()
		s.must(p.Remove(s.Context()))
		for _, w := range waiting {
			s.mustReturn(w)
		}
		require.Equal(s, joined, counted.Fired())
	})
}

func TestInvalidArgumentOfBarrierIsAnErrorThatNamesIt(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p := s.process()
		for path, want := range map[string]string{
			"": "is empty", "b": "is not absolute", "/": "is the root", "/a//b": "has an empty segment", "/zookeeper": "belongs to ZooKeeper",
		} {
			_, err := barrier.New(p.client, path, nil)
			require.ErrorContains(s, err, "new barrier")
			require.ErrorContains(s, err, want)
		}
		_, err := barrier.New(nil, path, nil)
		require.ErrorContains(s, err, "client is nil")
		for _, call := range []func(context.Context) error{p.Set, p.Remove, p.Wait} {
			require.ErrorContains(s, call(nil), "context is nil")
		}
	})
}
