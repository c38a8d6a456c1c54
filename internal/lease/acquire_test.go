// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestLeaseOfKnownPathCostsOneWriteAndItsReleaseAnother(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		require.NoError(w, r.Release(w.Context(), w.acquired(r, ask("a")).Ticket))
		var g lease.Grant
		require.Equal(w, map[string]int{"multi": 1}, w.requests(func() { g = w.acquired(r, ask("b")) }))
		require.Equal(w, map[string]int{"setData": 1}, w.requests(func() {
			_, err := r.Renew(w.Context(), time.Now(), g.Ticket, ttl)
			require.NoError(w, err)
		}))
		require.Equal(w, map[string]int{"delete": 1}, w.requests(func() { require.NoError(w, r.Release(w.Context(), g.Ticket)) }))
	})
}

func TestLeaseExcludesOtherLeasesAndTheLibrary(t *testing.T) {
	simulated(t, func(w world) {
		r, client := w.replica(), w.client(recipes.Options{})
		queue, err := queue.New(client, path, nil)
		require.NoError(w, err)
		first := w.acquired(r, ask("a"))
		var held *lease.HeldError
		_, err = w.acquire(r, ask("b"))
		require.ErrorAs(w, err, &held)
		require.Equal(w, "a", held.Front.Owner)
		require.True(w, held.Front.Held)
		require.Equal(w, ttl, held.RetryAfter)
		var busy *recipes.BusyError
		_, err = queue.Try(w.Context())
		require.ErrorAs(w, err, &busy)
		require.Equal(w, recipes.KindLease, busy.Front.Kind)
		require.Equal(w, ttl, busy.Front.TTL)
		require.Len(w, w.nodes(), 1)

		require.NoError(w, r.Release(w.Context(), first.Ticket))
		claim, err := queue.Try(w.Context())
		require.NoError(w, err)
		require.Greater(w, claim.Token(), first.Token)
		_, err = w.acquire(r, ask("b"))
		require.ErrorAs(w, err, &held)
		require.Equal(w, recipes.KindSession, held.Front.Kind)
		require.Len(w, w.nodes(), 1)
		require.NoError(w, queue.Release(w.Context(), claim))
		require.Greater(w, w.acquired(r, ask("b")).Token, claim.Token())
	})
}

func TestSameRequestGetsSameLeaseFromAnyReplica(t *testing.T) {
	simulated(t, func(w world) {
		one, other := w.replica(), w.replica()
		g := w.acquired(one, ask("a"))
		time.Sleep(ttl / 2)
		var again lease.Grant
		counts := w.requests(func() { again = w.acquired(other, ask("a")) })
		require.Equal(w, map[string]int{"getChildren": 2, "getData": 1, "setData": 1}, counts)
		require.Equal(w, g.Token, again.Token)
		require.Equal(w, g.Ticket, again.Ticket)
		require.Len(w, w.nodes(), 1)
		time.Sleep(ttl * 3 / 4)
		_, err := one.Renew(w.Context(), time.Now(), g.Ticket, ttl)
		require.NoError(w, err, "the repeated request was a write, from which its validity counts")
	})
}

func TestSameRequestWithOtherParametersIsRefused(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		req := ask("a")
		req.Metadata = map[string]string{"job": "1"}
		w.acquired(r, req)
		var mismatch *lease.MismatchError
		for field, other := range map[string]lease.Request{
			"metadata":  ask("a"),
			"reentrant": {Path: path, Principal: "p", Owner: "a", RequestID: req.RequestID, TTL: ttl, Metadata: req.Metadata, Reentrant: true},
		} {
			_, err := w.acquire(r, other)
			require.ErrorAs(w, err, &mismatch)
			require.Equal(w, field, mismatch.Field)
		}
		otherPrincipal := req
		otherPrincipal.Principal = "q"
		var held *lease.HeldError
		_, err := w.acquire(r, otherPrincipal)
		require.ErrorAs(w, err, &held, "of another principal, it is another request")
	})
}

func TestWaiterIsGrantedWhenThoseAheadLeave(t *testing.T) {
	simulated(t, func(w world) {
		one, other := w.replica(), w.replica()
		first := w.acquired(one, ask("a"))
		second := w.acquiring(w.Context(), other, waiting("b", 20*time.Second))
		third := w.acquiring(w.Context(), one, waiting("c", 20*time.Second))
		time.Sleep(15 * time.Second)
		w.requireWaiting(second)
		require.NoError(w, one.Release(w.Context(), first.Ticket))
		o := <-second
		require.NoError(w, o.err)
		w.requireWaiting(third)
		require.Greater(w, o.grant.Token, first.Token)
		require.GreaterOrEqual(w, o.grant.Valid, ttl+15*time.Second*31/32, "from the sending of the request")
		require.Less(w, o.grant.Valid, ttl+15*time.Second)
		require.NoError(w, other.Release(w.Context(), o.grant.Ticket))
		require.NoError(w, (<-third).err)
	})
}

func TestPollEndsWithItsPositionKept(t *testing.T) {
	simulated(t, func(w world) {
		one, other := w.replica(), w.replica()
		first := w.acquired(one, ask("a"))
		began := time.Now()
		_, err := w.acquire(one, waiting("b", time.Hour))
		var poll *lease.WaitingError
		require.ErrorAs(w, err, &poll)
		require.Equal(w, 20*time.Second, time.Since(began))
		require.Equal(w, 1, poll.Position)
		require.Equal(w, "a", poll.Front.Owner)
		before := w.nodes()
		require.Len(w, before, 2)
		time.Sleep(4 * time.Second)
		_, err = one.Renew(w.Context(), time.Now(), first.Ticket, ttl)
		require.NoError(w, err)
		second := w.acquiring(w.Context(), other, waiting("b", time.Hour))
		require.ElementsMatch(w, before, w.nodes(), "another replica goes on with the same node")
		require.Empty(w, one.Waiters())
		waiters := other.Waiters()
		require.Len(w, waiters, 1)
		require.Equal(w, 24*time.Second, time.Since(waiters[0].Since), "across polls")
		require.NoError(w, one.Release(w.Context(), first.Ticket))
		require.NoError(w, (<-second).err)
	})
}

func TestWaitThatIsOverLeavesNoNode(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		w.acquired(r, ask("a"))
		began := time.Now()
		_, err := w.acquire(r, waiting("b", 7*time.Second))
		var held *lease.HeldError
		require.ErrorAs(w, err, &held)
		require.Equal(w, 7*time.Second, time.Since(began))
		require.Len(w, w.nodes(), 1)
	})
}

func TestCallerThatHasGoneLeavesNoNode(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		w.acquired(r, ask("a"))
		ctx, cancel := context.WithCancel(w.Context())
		second := w.acquiring(ctx, r, waiting("b", time.Hour))
		require.Len(w, w.nodes(), 2)
		cancel()
		require.ErrorIs(w, (<-second).err, context.Canceled)
		require.Len(w, w.nodes(), 1)
	})
}

func TestOtherCallForSameRequestTakesItOver(t *testing.T) {
	simulated(t, func(w world) {
		one, other := w.replica(), w.replica()
		first := w.acquired(one, ask("a"))
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		zombie := w.acquiring(ctx, one, waiting("b", time.Hour))
		second := w.acquiring(w.Context(), other, waiting("b", time.Hour))
		require.Len(w, w.nodes(), 2, "it has one node")
		cancel()
		require.Error(w, (<-zombie).err)
		require.Len(w, w.nodes(), 2, "a caller that has gone does not delete what another call has written")
		third := w.acquiring(w.Context(), one, waiting("b", time.Hour))
		time.Sleep(12 * time.Second)
		require.ErrorIs(w, (<-second).err, lease.ErrSuperseded)
		require.NoError(w, one.Release(w.Context(), first.Ticket))
		require.NoError(w, (<-third).err)
	})
}

// A gateway may not pass on that a caller has gone. Once the caller has withdrawn its request, or has been granted it by
// another replica and released it, a call that still waits with it must not take the lock for no client.
func TestCallWhoseRequestEndedElsewhereDoesNotJoinAgain(t *testing.T) {
	for name, end := range map[string]func(w world, other *lease.Replica, first lease.Grant) lease.Grant{
		"withdrawn": func(w world, other *lease.Replica, first lease.Grant) lease.Grant {
			_, err := w.acquire(other, ask("b"))
			require.ErrorAs(w, err, new(*lease.HeldError))
			return first
		},
		"released": func(w world, other *lease.Replica, first lease.Grant) lease.Grant {
			second := w.acquiring(w.Context(), other, waiting("b", time.Hour))
			require.NoError(w, other.Release(w.Context(), first.Ticket))
			o := <-second
			require.NoError(w, o.err)
			require.NoError(w, other.Release(w.Context(), o.grant.Ticket))
			return w.acquired(other, ask("c"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(w world) {
				one, other := w.replica(), w.replica()
				first := w.acquired(one, ask("a"))
				zombie := w.acquiring(w.Context(), one, waiting("b", time.Hour))
				last := end(w, other, first)
				time.Sleep(12 * time.Second)
				require.Equal(w, []string{last.Ticket.Node}, w.nodes())
				require.ErrorIs(w, (<-zombie).err, lease.ErrSuperseded)
				require.NoError(w, other.Release(w.Context(), last.Ticket))
				require.Empty(w, w.nodes())
			})
		})
	}
}

func TestCallWhoseRequestWasWithdrawnIsNotGrantedTheLock(t *testing.T) {
	simulated(t, func(w world) {
		one, other := w.replica(), w.replica()
		first := w.acquired(one, ask("a"))
		zombie := w.acquiring(w.Context(), one, waiting("b", time.Hour))
		_, err := w.acquire(other, ask("b"))
		require.ErrorAs(w, err, new(*lease.HeldError))
		require.NoError(w, other.Release(w.Context(), first.Ticket))
		require.ErrorIs(w, (<-zombie).err, lease.ErrSuperseded)
		require.Empty(w, w.nodes())
	})
}

func TestWaiterThatIsMissingDoesNotKeepOthersFromBeingRenewed(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		first := w.acquired(r, ask("a"))
		var results []<-chan outcome
		for _, owner := range []string{"b", "c", "d"} {
			results = append(results, w.acquiring(w.Context(), r, waiting(owner, 20*time.Second)))
		}
		status, err := r.Status(w.Context(), path)
		require.NoError(w, err)
		deleted := status.Contenders[2].Name
		require.NoError(w, w.Delete(path+"/"+deleted))
		time.Sleep(12 * time.Second)
		status, err = r.Status(w.Context(), path)
		require.NoError(w, err)
		var owners []string
		for _, c := range status.Contenders[1:] {
			owners = append(owners, c.Owner)
			require.Positive(w, c.Version, "it was renewed")
		}
		require.Equal(w, []string{"b", "d"}, owners)
		require.ErrorIs(w, (<-results[1]).err, lease.ErrSuperseded)
		require.NoError(w, r.Release(w.Context(), first.Ticket))
		require.NoError(w, (<-results[0]).err)
	})
}

func TestDrainedReplicaKeepsPositionsAndSendsCallersAway(t *testing.T) {
	simulated(t, func(w world) {
		one, other := w.replica(), w.replica()
		first := w.acquired(one, ask("a"))
		second := w.acquiring(w.Context(), one, waiting("b", 10*time.Second))
		began := time.Now()
		one.Drain()
		var poll *lease.WaitingError
		require.ErrorAs(w, (<-second).err, &poll)
		require.Equal(w, began, time.Now())
		_, err := w.acquire(one, waiting("c", 10*time.Second))
		require.ErrorAs(w, err, &poll)
		require.Equal(w, 2, poll.Position)
		second = w.acquiring(w.Context(), other, waiting("b", 10*time.Second))
		require.Len(w, w.nodes(), 3)
		require.NoError(w, one.Release(w.Context(), first.Ticket))
		require.NoError(w, (<-second).err)
	})
}

func TestWaitersAreRenewedInOneTransaction(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		holder, claim := w.claimed(recipes.Options{})
		const waiters = 128
		var results []<-chan outcome
		for i := range waiters {
			results = append(results, w.acquiring(w.Context(), r, waiting(string(rune('a'+i)), time.Hour)))
		}
		time.Sleep(time.Second)
		counts := w.requests(func() { time.Sleep(11 * time.Second) })
		require.LessOrEqual(w, counts["multi"], 14, "heartbeats of the holder included")
		require.Zero(w, counts["setData"])
		require.Zero(w, counts["getChildren"], "a renewal ahead costs no listing")
		require.NoError(w, holder.Release(w.Context(), claim))
		synctest.Wait()
		granted := 0
		for _, result := range results {
			if o := <-result; o.err == nil {
				granted++
			}
		}
		require.Equal(w, 1, granted)
	})
}
