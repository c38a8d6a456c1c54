// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/internal/need"
)

// polled returns a request whose first poll has ended, behind a lease that r has granted.
func (w world) polled(r *lease.Replica) (first lease.Grant, req lease.Request) {
	w.Helper()
	held := ask("a")
	held.TTL = time.Hour
	first, req = w.acquired(r, held), waiting("b", time.Hour)
	_, err := w.acquire(r, req)
	var poll *lease.WaitingError
	require.ErrorAs(w, err, &poll)
	return first, req
}

func TestNextPollAtSameReplicaBeginsWithoutListing(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		first, req := w.polled(r)
		before := w.nodes()
		var second <-chan outcome
		counts := w.requests(func() { second = w.acquiring(w.Context(), r, req) })
		require.Equal(w, map[string]int{"setData": 1}, counts, "a renewal; the watch is still set")
		require.Equal(w, before, w.nodes())
		time.Sleep(15 * time.Second)
		w.requireWaiting(second)
		require.NoError(w, r.Release(w.Context(), first.Ticket))
		require.NoError(w, (<-second).err)
	})
}

// The caller of a poll that was answered may have died. Nothing but its position is left, and that is not for long.
func TestWaiterThatDiesAfterItsPollBlocksTheQueueForSeconds(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		first, req := w.polled(r)
		_, err := w.acquire(r, ask("c"))
		var held *lease.HeldError
		require.ErrorAs(w, err, &held)
		require.Equal(w, first.Owner, held.Holder())

		require.NoError(w, r.Release(w.Context(), first.Ticket))
		began := time.Now()
		_, err = w.acquire(r, ask("c"))
		require.ErrorAs(w, err, &held)
		require.Equal(w, req.Owner, held.Front.Owner)
		require.Empty(w, held.Holder(), "it was never granted the lock")
		require.NotContains(w, err.Error(), "held by")
		w.acquired(r, waiting("c", time.Minute))
		require.LessOrEqual(w, time.Since(began), 6*time.Second)
	})
}

func TestWaitingErrorSaysHowSoonToAskAgain(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		held := ask("a")
		held.TTL = time.Hour
		first, req := w.acquired(r, held), waiting("b", time.Hour)
		_, err := w.acquire(r, req)
		var poll *lease.WaitingError
		require.ErrorAs(w, err, &poll)
		require.Equal(w, 5*time.Second, poll.AskWithin)
		require.Equal(w, first.Owner, poll.Holder())
		behind := w.acquiring(w.Context(), r, waiting("c", time.Hour)) // an observer
		time.Sleep(poll.AskWithin - time.Millisecond)
		before := w.nodes()
		second := w.acquiring(w.Context(), r, req)
		require.Equal(w, before, w.nodes())
		require.NoError(w, r.Release(w.Context(), first.Ticket))
		require.NoError(w, (<-second).err)
		w.requireWaiting(behind)
	})
}

func TestPredecessorThatLeavesBetweenPollsIsNoticed(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		first, req := w.polled(r)
		require.NoError(w, r.Release(w.Context(), first.Ticket))
		began := time.Now()
		w.acquired(r, req)
		require.Equal(w, began, time.Now())
	})
}

func TestReplicaGoesOnWithWaiterThatAnotherOneHasServedMeanwhile(t *testing.T) {
	simulated(t, func(w world) {
		one, other := w.replica(), w.replica()
		first, req := w.polled(one)
		_, err := w.acquire(other, req)
		require.ErrorAs(w, err, new(*lease.WaitingError))
		before := w.nodes()
		second := w.acquiring(w.Context(), one, req)
		require.Equal(w, before, w.nodes())
		require.NoError(w, one.Release(w.Context(), first.Ticket))
		o := <-second
		require.NoError(w, o.err)

		require.NoError(w, one.Release(w.Context(), o.grant.Ticket))
		w.acquired(other, ask("c"))
		synctest.Wait()
		_, err = w.acquire(other, waiting("b", time.Second))
		require.ErrorAs(w, err, new(*lease.HeldError), "its node has left, which that replica remembers as waiting")
	})
}

func TestWaiterThatExpiredBetweenPollsJoinsAgain(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		first, req := w.polled(r)
		time.Sleep(2 * ttl)
		require.Len(w, w.nodes(), 1)
		second := w.acquiring(w.Context(), r, req)
		require.Len(w, w.nodes(), 2)
		require.NoError(w, r.Release(w.Context(), first.Ticket))
		require.NoError(w, (<-second).err)
	})
}

// Each of many waiters receives its position at the end of its poll. If each listing were its own,
// they would cost the square of their number.
func TestPollsOfManyWaitersShareListings(t *testing.T) {
	need.NoRaceDetector(t)
	const waiters, length = 400, 20 * time.Second
	simulated(t, func(w world) {
		r := w.replica()
		req := ask("first")
		req.TTL = time.Hour
		w.acquired(r, req)
		ctx, cancel := context.WithCancel(w.Context())
		var polling sync.WaitGroup
		for i := range waiters {
			polling.Go(func() {
				time.Sleep(length * time.Duration(i) / waiters)
				for ctx.Err() == nil {
					_, err := r.Acquire(ctx, time.Now(), waiting(fmt.Sprint(i), time.Hour))
					var poll *lease.WaitingError
					if ctx.Err() == nil && !errors.As(err, &poll) {
						w.Errorf("waiter %d: %v", i, err)
					}
				}
			})
		}
		time.Sleep(2 * length)
		counts := w.requests(func() { time.Sleep(length) })
		w.Logf("%d polls: %v", waiters, counts)
		require.LessOrEqual(w, counts["getChildren"], 2*int(length/time.Second))
		cancel()
		polling.Wait()
	})
}
