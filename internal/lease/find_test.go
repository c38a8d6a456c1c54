// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestTokenFindsTheLeaseOfItsOwnRequestOnly(t *testing.T) {
	simulated(t, func(w world) {
		one, other := w.replica(), w.replica()
		g := w.acquired(one, ask("a"))
		for _, r := range []*lease.Replica{one, other} {
			found, err := r.Find(w.Context(), ask("a"), g.Token)
			require.NoError(w, err)
			require.Equal(w, g.Ticket, found)
			_, err = r.Find(w.Context(), ask("b"), g.Token)
			require.ErrorIs(w, err, lease.ErrNotOwner)
			_, err = r.Find(w.Context(), ask("a"), g.Token+1)
			require.ErrorIs(w, err, lease.ErrNotOwner, "no contender has had it")
			_, err = r.Find(w.Context(), ask("a"), g.Token-1)
			require.ErrorIs(w, err, lease.ErrReplaced)
			stranger := ask("a")
			stranger.RequestID = "another one"
			_, err = r.Find(w.Context(), stranger, g.Token)
			require.ErrorIs(w, err, lease.ErrNotOwner)
		}
		require.NoError(w, one.Release(w.Context(), g.Ticket))
		second := w.acquired(one, ask("b"))
		_, err := other.Find(w.Context(), ask("a"), g.Token)
		require.ErrorIs(w, err, lease.ErrGone)
		require.NotErrorIs(w, err, lease.ErrReplaced)
		require.NoError(w, one.Release(w.Context(), second.Ticket))
		_, err = other.Find(w.Context(), ask("a"), g.Token)
		require.ErrorIs(w, err, lease.ErrGone)
	})
}

func TestReplicaFindsItsOwnLeaseWithoutRequest(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		g := w.acquired(r, ask("a"))
		counts := w.requests(func() {
			_, err := r.Find(w.Context(), ask("a"), g.Token)
			require.NoError(w, err)
		})
		require.Empty(w, counts)
	})
}

func TestServerThatLagsHidesNoLeaseFromItsToken(t *testing.T) {
	lagging(t, func(w world, leader, follower *lease.Replica, lag func()) {
		require.NoError(w, leader.Release(w.Context(), w.acquired(leader, ask("former")).Ticket))
		time.Sleep(timeout / 10)
		lag()
		g := w.acquired(leader, ask("a"))
		found, err := follower.Find(w.Context(), ask("a"), g.Token)
		require.NoError(w, err)
		require.Equal(w, g.Ticket, found)
	})
}

func TestUnbrokenRequestWaitsInOneCall(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		held := ask("a")
		held.TTL = time.Hour
		first := w.acquired(r, held)
		req := waiting("b", 5*time.Minute)
		req.Unbroken = true
		began := time.Now()
		_, err := w.acquire(r, req)
		require.ErrorAs(w, err, new(*lease.HeldError))
		require.Equal(w, 5*time.Minute, time.Since(began).Truncate(time.Second))
		require.Len(w, w.nodes(), 1)

		second := w.acquiring(w.Context(), r, req)
		time.Sleep(2 * time.Minute)
		w.requireWaiting(second)
		require.NoError(w, r.Release(w.Context(), first.Ticket))
		o := <-second
		require.NoError(w, o.err)
		require.Equal(w, 2*time.Minute, o.grant.Waited.Truncate(time.Second))
		require.Zero(w, first.Waited)
		require.False(w, o.grant.Repeated)
		again := w.acquired(w.replica(), req)
		require.True(w, again.Repeated)
		require.Equal(w, o.grant.Token, again.Token)
	})
}

func TestUnbrokenRequestKeepsItsPositionWhenTheReplicaStops(t *testing.T) {
	simulated(t, func(w world) {
		one, other := w.replica(), w.replica()
		first := w.acquired(one, ask("a"))
		req := waiting("b", time.Hour)
		req.Unbroken = true
		second := w.acquiring(w.Context(), one, req)
		w.requireWaiting(second)
		one.Drain()
		require.ErrorAs(w, (<-second).err, new(*lease.WaitingError))
		second = w.acquiring(w.Context(), other, req)
		w.requireWaiting(second)
		require.Len(w, w.nodes(), 2, "it goes on with its node")
		require.NoError(w, one.Release(w.Context(), first.Ticket))
		require.NoError(w, (<-second).err)
	})
}

// The token of the front is not known to the caller, and a successor's must not be taken for it.
func TestForceReleaseWithoutTokenEndsOneFrontOnly(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		first := w.acquired(r, ask("a"))
		second := w.acquiring(w.Context(), r, waiting("b", 20*time.Second))
		w.requireWaiting(second)
		f := lease.Force{Path: path, By: "admin", Reason: "stuck", Mode: lease.Now}
		forced, err := r.ForceRelease(w.Context(), f)
		require.NoError(w, err)
		require.Equal(w, lease.Forced{Node: first.Ticket.Node, Token: first.Token, TokenOnly: true}, forced)
		o := <-second
		require.NoError(w, o.err)
		_, err = r.Renew(w.Context(), time.Now(), o.grant.Ticket, ttl)
		require.NoError(w, err)
	})
}

func TestForceReleaseWithoutTokenSparesTheSuccessorOfAHolderThatLeaves(t *testing.T) {
	simulated(t, func(w world) {
		one, other := w.replica(), w.replica()
		first := w.acquired(one, ask("a"))
		second := w.acquiring(w.Context(), one, waiting("b", 20*time.Second))
		w.requireWaiting(second)
		w.Intercept(zktest.Rule{Op: "delete", Times: 1, Before: func(zktest.Request) {
			require.NoError(w, w.Delete(path+"/"+first.Ticket.Node)) // its holder is faster
		}})
		var front *lease.FrontError
		_, err := other.ForceRelease(w.Context(), lease.Force{Path: path, By: "admin", Reason: "stuck", Mode: lease.Now})
		require.ErrorAs(w, err, &front)
		o := <-second
		require.NoError(w, o.err)
		require.Equal(w, o.grant.Token, front.Token)
		_, err = one.Renew(w.Context(), time.Now(), o.grant.Ticket, ttl)
		require.NoError(w, err)
	})
}
