// SPDX-License-Identifier: Apache-2.0

package group_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestObserveYieldsTheMembersAndThenEachChange(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, o := s.process(), s.process()
		ctx, cancel := context.WithCancel(s.Context())
		f := o.follow(ctx)
		require.Zero(s, f.requireNext(s, nil, nil, nil).Revision, "no group yet")
		a := p.join("a", "1")
		first := f.requireNext(s, []string{"a"}, nil, nil)
		b := p.join("b", "1")
		second := f.requireNext(s, []string{"b"}, nil, nil)
		require.Greater(s, second.Revision, first.Revision)
		s.must(a.Update(s.Context(), []byte("2")))
		updated := f.requireNext(s, nil, nil, []string{"a"})
		require.Equal(s, second.Revision, updated.Revision)
		require.Greater(s, updated.Members[0].Revision, updated.Revision)
		require.Equal(s, []string{"a=2", "b=1"}, names(updated.Members))
		s.must(b.Leave(s.Context()))
		left := f.requireNext(s, nil, []string{"b"}, nil)
		require.Equal(s, "1", string(left.Left[0].Metadata))
		require.Greater(s, left.Revision, second.Revision)
		s.must(s.Expire(s.Context(), p.client.SessionID()))
		var joined, gone int
		for range 2 {
			c := <-f.changes
			joined, gone = joined+len(c.Joined), gone+len(c.Left)
			if len(c.Members) == 1 {
				break
			}
		}
		require.Equal(s, []int{1, 1}, []int{joined, gone}, "left with its session, and joined again")
		cancel()
		require.ErrorIs(s, <-f.ended, context.Canceled)
		require.Empty(s, f.changes)
	})
}

func TestObserveContinuesAcrossDisconnectionsAndSessions(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, o := s.process(), s.process()
		f := o.follow(s.Context())
		f.requireNext(s, nil, nil, nil)
		var last group.Change
		for i := range 6 {
			if i%2 == 0 {
				o.link.Reset()
			} else {
				s.must(s.Expire(s.Context(), o.client.SessionID()))
			}
			p.join(fmt.Sprint(i), "")
			last = f.requireNext(s, []string{fmt.Sprint(i)}, nil, nil)
		}
		require.Len(s, last.Members, 6)
		o.client.Close()
		require.ErrorIs(s, <-f.ended, recipes.ErrClosed)
	})
}

func TestSlowReaderSkipsToTheNewestSnapshot(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, o := s.process(), s.process()
		p.join("a", "1")
		gone := p.join("b", "1")
		var seen []group.Change
		for change, err := range o.Observe(s.Context()) {
			s.must(err)
			seen = append(seen, change)
			if len(seen) == 2 {
				break
			}
			// While this reader is busy:
			s.must(gone.Leave(s.Context()))
			gone = p.join("b", "2")
			for i := range 20 {
				s.must(p.join(fmt.Sprint("c", i), "").Leave(s.Context()))
			}
			p.join("d", "1")
		}
		require.Equal(s, []string{"b", "d"}, ids(seen[1].Joined))
		require.Equal(s, []string{"b"}, ids(seen[1].Left))
		require.Equal(s, []string{"a=1", "b=2", "d=1"}, names(seen[1].Members))
		_ = gone
	})
}

func TestReaderMayChangeWhatItGets(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, o := s.process(), s.process()
		p.join("a", "1")
		for change, err := range o.Observe(s.Context()) {
			s.must(err)
			if len(change.Members) == 2 {
				require.Equal(s, []string{"b"}, ids(change.Joined))
				require.Empty(s, change.Left)
				break
			}
			change.Members[0] = group.Member{}
			p.join("b", "1")
		}
	})
}

// After an outage all members join again at about the same time. An observer reads each of them
// once, and lists the group a few times.
func TestBurstIsReadInFewRounds(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		const members = 100
		o := s.process()
		processes := make([]*process, members)
		for i := range processes {
			processes[i] = s.process()
			processes[i].link.Delay(time.Duration(i) * time.Millisecond / 4)
			processes[i].join(fmt.Sprintf("m%03d", i), "x")
		}
		f := o.follow(s.Context())
		require.Len(s, (<-f.changes).Members, members)
		lists := o.link.Intercept(zktest.Rule{Op: "getChildren"})
		reads := o.link.Intercept(zktest.Rule{Op: "getData"})
		for _, p := range processes {
			s.must(s.Expire(s.Context(), p.client.SessionID()))
		}
		for c := range f.changes {
			if len(c.Members) == members && c.Members[0].Session == processes[0].client.SessionID() {
				break
			}
		}
		time.Sleep(timeout)
		synctest.Wait()
		require.LessOrEqual(s, lists.Fired(), 20)
		require.LessOrEqual(s, reads.Fired(), 2*members)
		t.Logf("%d listings, %d reads", lists.Fired(), reads.Fired())
	})
}

// An observer of 1,000 members reads each of them once, and then only what has changed.
func TestLargeGroupCostsOneListingAndReadsOfTheNewMembers(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		const members = 1000
		p, o := s.process(), s.process()
		for i := range members {
			p.join(fmt.Sprintf("m%04d", i), "x")
		}
		all := o.link.Intercept(zktest.Rule{})
		f := o.follow(s.Context())
		require.Len(s, (<-f.changes).Members, members)
		require.LessOrEqual(s, all.Fired(), members+2+2, "a listing, the reads, pings")
		before := all.Fired()
		p.join("new", "x")
		f.requireNext(s, []string{"new"}, nil, nil)
		require.LessOrEqual(s, all.Fired()-before, 2+1, "a listing and a read, a ping")
	})
}

// A follower that lags shows an older group, and never one that is older than what was shown before.
func TestRevisionNeverFallsWithServersThatLag(t *testing.T) {
	bubble(t, zktest.Options{Servers: 3}, func(s servers) {
		s.Servers()[1].Lag(timeout / 8)
		s.Servers()[2].Lag(timeout / 4)
		p, o := s.process(), s.process()
		f := o.follow(s.Context())
		var revision int64
		for i := range 30 {
			p.join(fmt.Sprint(i), "")
			switch i % 3 {
			case 0:
				o.link.Reset()
			case 1:
				_ = s.Expire(s.Context(), o.client.SessionID()) // it may be between two sessions
			}
			time.Sleep(timeout / 8)
			for len(f.changes) > 0 {
				c := <-f.changes
				require.GreaterOrEqual(s, c.Revision, revision)
				require.Empty(s, c.Left)
				revision = c.Revision
			}
		}
		require.NotZero(s, revision)
	})
}

// The member's id is that of one which has left: the names that were listed do not show the difference.
func TestSnapshotHasNoMemberThatJoinedAfterItsRevision(t *testing.T) {
	bubble(t, zktest.Options{}, func(s servers) {
		p, q, o := s.process(), s.process(), s.process()
		p.join("x", "1")
		joined := make(chan struct{})
		go func() {
			defer close(joined)
			q.join("x", "2")
		}()
		time.Sleep(timeout)
		o.link.Intercept(zktest.Rule{Op: "getData", Path: path + "/x", Times: 1, Before: func(zktest.Request) {
			s.must(p.client.Close())
			<-joined
		}})
		snapshot := o.members()
		require.Equal(s, []string{"x=2"}, names(snapshot.Members))
		require.GreaterOrEqual(s, snapshot.Revision, snapshot.Members[0].Joined)
	})
}
