// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestQueuesReportsWaitersClaimsAndNodesToDelete(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		client := s.loaded(recipes.Options{Namespace: "/team"})
		require.Empty(s, client.Queues())
		since := time.Now()
		first := s.holds(client, "/a")
		time.Sleep(time.Second)
		s.holds(client, "/b")
		waiting := s.queue(client, "/a")
		granted := make(chan error, 1)
		go func() {
			_, err := waiting.Claim(s.Context())
			granted <- err
		}()
		s.queued("/team/a", 2, time.Minute)
		synctest.Wait()
		require.Equal(s, []recipes.QueueState{
			{Path: "/team/a", Waiting: 1, Held: 1, Oldest: since},
			{Path: "/team/b", Held: 1, Oldest: since.Add(time.Second)},
		}, client.Queues())

		refused := s.Intercept(zktest.Rule{Op: "delete", Below: "/team/a", Fail: zktest.ErrNoAuth})
		require.Error(s, waiting.Release(s.Context(), first))
		require.Equal(s, []recipes.QueueState{
			{Path: "/team/a", Waiting: 1, Deleting: 1},
			{Path: "/team/b", Held: 1, Oldest: since.Add(time.Second)},
		}, client.Queues())
		require.Equal(s, 3, client.OutstandingNodes())
		refused.Remove()
		require.NoError(s, <-granted)

		require.NoError(s, s.Expire(t.Context(), client.SessionID()))
		synctest.Wait()
		require.Empty(s, client.Queues())
	})
}

// An event is the name of a function of a trace, and the values that it was called with.
type event struct {
	name  string
	value any
}

func TestTraceReportsHowLongWaitsAndHoldsWereAndWhatWasLeftOfTheDeadline(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		var events []event
		var left []time.Duration
		trace := &recipes.Trace{
			Proved: func(e recipes.SessionEvent) {
				require.Equal(s, loadTimeout, e.Timeout)
				left = append(left, e.Left)
			},
			Joined: func(e recipes.QueueEvent) { events = append(events, event{"joined", e.Contenders}) },
			Granted: func(e recipes.QueueEvent) {
				events = append(events, event{"granted", e.Waited})
			},
			HandedOver: func(e recipes.QueueEvent) { events = append(events, event{"handed over", e.Path}) },
			Failed:     func(e recipes.QueueEvent) { events = append(events, event{"failed", e.Waited}) },
			Ended: func(e recipes.QueueEvent) {
				events = append(events, event{"held", e.Held}, event{"cause", e.Err})
			},
		}
		client := s.loaded(recipes.Options{Trace: trace})
		queue := s.queue(client, "/a")
		claim, err := queue.Claim(s.Context())
		require.NoError(s, err)
		brief, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		_, err = queue.Claim(brief)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		next := make(chan *recipes.Claim, 1)
		go func() {
			claim, _ := queue.Claim(s.Context())
			next <- claim
		}()
		time.Sleep(time.Hour)
		require.NoError(s, queue.Release(s.Context(), claim))
		claim = <-next
		time.Sleep(time.Minute)
		require.NoError(s, s.Delete(claim.Path()))
		<-claim.Done()
		synctest.Wait()
		require.Equal(s, []event{
			{"joined", 1},
			{"granted", time.Duration(0)},
			{"joined", 2},
			{"failed", time.Second},
			{"joined", 2},
			{"held", time.Hour + time.Second},
			{"cause", recipes.ErrReleased},
			{"granted", time.Hour},
			{"handed over", "/a"},
			{"held", time.Minute},
			{"cause", recipes.ErrDeleted},
		}, events)
		require.Greater(s, len(left), 60*60)
		for _, d := range left[2:] {
			require.GreaterOrEqual(s, d, loadTimeout/3, "a heartbeat every T/6 keeps the deadline away")
		}
	})
}

// The time that a call waited is the caller's, whatever happened to its sessions.
func TestWaitIsReportedAcrossSessions(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		holder := s.loaded(recipes.Options{})
		claim := s.holds(holder, "/a")
		waits := make(chan time.Duration, 1)
		client := s.loaded(recipes.Options{Trace: &recipes.Trace{
			Granted: func(e recipes.QueueEvent) { waits <- e.Waited },
		}})
		began := time.Now()
		granted := make(chan error, 1)
		go func() {
			_, err := s.queue(client, "/a").Claim(s.Context())
			granted <- err
		}()
		time.Sleep(time.Minute)
		require.NoError(s, s.Expire(t.Context(), client.SessionID()))
		time.Sleep(time.Minute)
		require.NoError(s, s.queue(holder, "/a").Release(s.Context(), claim))
		require.NoError(s, <-granted)
		require.Equal(s, time.Since(began), <-waits)
	})
}

func TestProofThatArrivesLateIsReportedWithTheTimeThatWasLeft(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		var left []time.Duration
		link := s.Link()
		client := s.loaded(recipes.Options{Dial: link.Dial, Trace: &recipes.Trace{
			Proved: func(e recipes.SessionEvent) { left = append(left, e.Left) },
		}})
		claim := s.holds(client, "/a")
		time.Sleep(2 * loadTimeout)
		for time.Until(claim.Deadline()) > loadTimeout/2 { // until just before the next heartbeat
			time.Sleep(time.Millisecond)
		}
		until := claim.Deadline()
		link.Reset()
		link.Refuse(true)
		time.Sleep(time.Until(until) - time.Second)
		link.Refuse(false)
		time.Sleep(loadTimeout)
		synctest.Wait()
		require.NoError(s, claim.Err())
		least := slices.Min(left)
		require.Positive(s, least)
		require.LessOrEqual(s, least, time.Second)
	})
}

// A waiter has nothing to lose at the deadline.
func TestProofsAreReportedOnlyWhileClaimsAreHeld(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		s.holds(s.loaded(recipes.Options{}), "/a")
		heartbeats, proofs := 0, 0
		client := s.loaded(recipes.Options{Trace: &recipes.Trace{
			Heartbeat: func(recipes.SessionEvent) { heartbeats++ },
			Proved:    func(recipes.SessionEvent) { proofs++ },
		}})
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		_, err := s.queue(client, "/a").Claim(ctx)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		synctest.Wait()
		require.Zero(s, heartbeats)
		require.Zero(s, proofs)
	})
}
