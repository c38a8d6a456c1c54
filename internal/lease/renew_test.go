// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// shared returns a request that shares the lease of its owner.
func shared(id string) lease.Request {
	req := ask("a")
	req.RequestID, req.Reentrant = id, true
	return req
}

func TestTTLOfHeldLeaseNeverDecreases(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		g := w.acquired(r, ask("a"))
		g, err := r.Renew(w.Context(), time.Now(), g.Ticket, ttl/3)
		require.NoError(w, err)
		require.Equal(w, ttl, g.TTL)
		g, err = r.Renew(w.Context(), time.Now(), g.Ticket, 3*ttl)
		require.NoError(w, err)
		require.Equal(w, 3*ttl, g.TTL)
		again := w.acquired(r, ask("a"))
		require.Equal(w, 3*ttl, again.TTL)
		status, err := r.Status(w.Context(), path)
		require.NoError(w, err)
		require.Equal(w, 3*ttl, status.Contenders[0].TTL)
	})
}

func TestValidityCountsFromTheRequestAndNotFromTheAnswer(t *testing.T) {
	simulated(t, func(w world) {
		link := w.Link()
		r := w.replicaOf(w.client(recipes.Options{Dial: link.Dial}))
		require.NoError(w, r.Release(w.Context(), w.acquired(r, ask("a")).Ticket))
		link.Delay(timeout / 20)
		g := w.acquired(r, ask("a"))
		require.Equal(w, ttl, g.Valid, "the time of the answer is the holder's loss")
		g, err := r.Renew(w.Context(), time.Now().Add(-time.Second), g.Ticket, ttl)
		require.NoError(w, err)
		require.Equal(w, ttl+time.Second*31/32, g.Valid)
	})
}

func TestRequestsOfOneOwnerShareLeaseAndLastReleaseEndsIt(t *testing.T) {
	simulated(t, func(w world) {
		one, other := w.replica(), w.replica()
		first := w.acquired(one, shared("1"))
		second := w.acquired(other, shared("2"))
		require.Equal(w, first.Token, second.Token)
		require.NotEqual(w, first.Ticket, second.Ticket)
		require.Equal(w, second.Ticket, w.acquired(one, shared("2")).Ticket, "requests are a set and not a count")
		require.NoError(w, other.Release(w.Context(), second.Ticket))
		require.NoError(w, one.Release(w.Context(), second.Ticket), "a repeat changes nothing")
		require.Len(w, w.nodes(), 1)
		_, err := w.acquire(one, shared("2"))
		require.ErrorIs(w, err, lease.ErrReleased, "no late duplicate enters again")
		_, err = one.Renew(w.Context(), time.Now(), second.Ticket, ttl)
		require.ErrorIs(w, err, lease.ErrReleased)
		_, err = one.Renew(w.Context(), time.Now(), first.Ticket, ttl)
		require.NoError(w, err)
		require.NoError(w, other.Release(w.Context(), first.Ticket))
		require.Empty(w, w.nodes())
		require.ErrorIs(w, one.Release(w.Context(), first.Ticket), lease.ErrGone)
	})
}

func TestLeaseIsSharedOnlyIfBothAskForIt(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		alone := ask("a")
		g := w.acquired(r, alone)
		var held *lease.HeldError
		_, err := w.acquire(r, shared("2"))
		require.ErrorAs(w, err, &held)
		require.NoError(w, r.Release(w.Context(), g.Ticket))
		w.acquired(r, shared("2"))
		_, err = w.acquire(r, alone)
		require.ErrorAs(w, err, &held)
		other := shared("3")
		other.Owner = "b"
		_, err = w.acquire(r, other)
		require.ErrorAs(w, err, &held)
	})
}

func TestLeaseHasBoundedNumberOfRequests(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		for i := range 64 {
			w.acquired(r, shared(string(rune('A'+i))))
		}
		_, err := w.acquire(r, shared("one more"))
		require.ErrorIs(w, err, lease.ErrExhausted)
	})
}

func TestTicketOfAnotherRequestRenewsNothing(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		g := w.acquired(r, ask("a"))
		for name, change := range map[string]func(*lease.Ticket){
			"principal": func(t *lease.Ticket) { t.Principal = "q" },
			"owner":     func(t *lease.Ticket) { t.Owner = "b" },
			"request":   func(t *lease.Ticket) { t.Request = "b" },
			"node":      func(t *lease.Ticket) { t.Node = "b-lock-0000000000" },
		} {
			ticket := g.Ticket
			change(&ticket)
			_, err := r.Renew(w.Context(), time.Now(), ticket, ttl)
			require.ErrorIs(w, err, lease.ErrGone, name)
		}
	})
}

// The replica that wrote a lease observes it, also where the answer to its write was lost.
func TestReplicaObservesLeaseWhoseRenewalWasNotAnswered(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		g := w.acquired(r, ask("a"))
		lost := w.Intercept(zktest.Rule{Op: "setData", Times: 1, Lose: zktest.ToClient})
		_, err := r.Renew(w.Context(), time.Now(), g.Ticket, ttl)
		require.NoError(w, err)
		require.Equal(w, 1, lost.Fired())
		time.Sleep(notYet)
		require.Len(w, w.nodes(), 1)
		time.Sleep(timeout)
		require.Empty(w, w.nodes())
	})
}

// A renewal of a replica that did not write last begins with a read, although it remembers a
// version.
func TestReplicaRenewsWhatItWroteLastWithoutRead(t *testing.T) {
	simulated(t, func(w world) {
		one, other := w.replica(), w.replica()
		g := w.acquired(one, ask("a"))
		renew := func(r *lease.Replica) map[string]int {
			return w.requests(func() {
				_, err := r.Renew(w.Context(), time.Now(), g.Ticket, ttl)
				require.NoError(w, err)
			})
		}
		require.Equal(w, map[string]int{"setData": 1}, renew(one))
		require.Equal(w, map[string]int{"getData": 1, "setData": 1}, renew(other))
		require.Equal(w, map[string]int{"setData": 1}, renew(other))
		require.Equal(w, map[string]int{"getData": 1, "setData": 2}, renew(one), "the first write is refused")
		require.Equal(w, map[string]int{"setData": 1}, renew(one))

		_, err := other.ForceRelease(w.Context(), force(g.Token))
		require.NoError(w, err)
		_, err = one.Renew(w.Context(), time.Now(), g.Ticket, ttl)
		require.ErrorIs(w, err, lease.ErrRevoked)
	})
}

// The memory of a replica must not grow with what its callers put into leases.
func TestReplicaRemembersNoLargeRecords(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		req := ask("a")
		req.Metadata = map[string]string{"job": strings.Repeat("x", 4096)}
		g := w.acquired(r, req)
		require.Equal(w, map[string]int{"getData": 1, "setData": 1}, w.requests(func() {
			_, err := r.Renew(w.Context(), time.Now(), g.Ticket, ttl)
			require.NoError(w, err)
		}))
	})
}
