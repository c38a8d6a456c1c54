// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestRevokedLeaseIsRenewedNoMoreAndExpires(t *testing.T) {
	simulated(t, func(w world) {
		one, other := w.replica(), w.replica()
		g := w.acquired(one, ask("a"))
		second := w.acquiring(w.Context(), other, waiting("b", 20*time.Second))
		forced, err := other.ForceRelease(w.Context(), force(g.Token))
		require.NoError(w, err)
		require.Equal(w, lease.Forced{Node: g.Ticket.Node, Token: g.Token, Notified: true}, forced)
		var revoked *lease.RevokedError
		_, err = one.Renew(w.Context(), time.Now(), g.Ticket, ttl)
		require.ErrorAs(w, err, &revoked)
		require.Equal(w, lease.RevokedError{By: "admin", Reason: "maintenance"}, *revoked)
		_, err = w.acquire(one, ask("a"))
		require.ErrorAs(w, err, &revoked)
		w.requireWaiting(second)
		_, err = other.ForceRelease(w.Context(), force(g.Token))
		require.NoError(w, err, "a repeat changes nothing")
		require.ErrorAs(w, (<-second).err, new(*lease.HeldError))
		second = w.acquiring(w.Context(), other, waiting("b", 20*time.Second))
		o := <-second
		require.NoError(w, o.err)
		var front *lease.FrontError
		_, err = other.ForceRelease(w.Context(), force(g.Token))
		require.ErrorAs(w, err, &front, "a late repeat does not hit the successor")
		require.Equal(w, o.grant.Token, front.Token)
	})
}

func TestRevokedLeaseIsReleasedByItsHolder(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		for _, req := range []lease.Request{ask("a"), shared("1")} {
			g := w.acquired(r, req)
			w.revoked(r, g.Token)
			require.NoError(w, r.Release(w.Context(), g.Ticket))
			require.Empty(w, w.nodes())
		}
		_, err := r.ForceRelease(w.Context(), force(1))
		require.ErrorIs(w, err, lease.ErrNotFound)
	})
}

func TestRevokedHolderOfLibraryIsNotifiedFirst(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		_, claim := w.claimed(recipes.Options{})
		second := w.acquiring(w.Context(), r, waiting("b", 20*time.Second))
		began := time.Now()
		forced, err := r.ForceRelease(w.Context(), force(claim.Token()))
		require.NoError(w, err)
		require.True(w, forced.Notified)
		<-claim.Done()
		require.LessOrEqual(w, time.Since(began), timeout/6+timeout/50)
		var revoked *recipes.RevokedError
		require.ErrorIs(w, claim.Err(), recipes.ErrLost)
		require.ErrorIs(w, claim.Err(), recipes.ErrRevoked)
		require.ErrorAs(w, claim.Err(), &revoked)
		require.Equal(w, recipes.RevokedError{By: "admin", Reason: "maintenance"}, *revoked)
		notified := time.Now()
		o := <-second
		require.NoError(w, o.err)
		require.GreaterOrEqual(w, o.at.Sub(notified), timeout/4, "its work has time to stop")
		require.Less(w, o.at.Sub(notified), timeout/2)
	})
}

func TestCheckAndCommitOfRevokedClaimReturnTheReason(t *testing.T) {
	for name, try := range map[string]func(w world, claim *recipes.Claim) error{
		"check": func(w world, claim *recipes.Claim) error { return claim.Check(w.Context()) },
		"commit": func(w world, claim *recipes.Claim) error {
			_, err := claim.Commit(w.Context(), &zk.CreateRequest{Path: "/state", Acl: zk.WorldACL(zk.PermAll)})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(w world) {
				r := w.replica()
				queue, claim := w.claimed(recipes.Options{})
				w.revoked(r, claim.Token())
				require.ErrorIs(w, try(w, claim), recipes.ErrRevoked)
				require.ErrorIs(w, claim.Err(), recipes.ErrRevoked)
				_, _, err := w.Get("/state")
				require.ErrorIs(w, err, zktest.ErrNoNode)
				require.ErrorIs(w, queue.Release(w.Context(), claim), recipes.ErrRevoked)
				time.Sleep(timeout / 50)
				require.Empty(w, w.nodes(), "its work has stopped")
			})
		})
	}
}

func TestRevokedHolderThatCannotBeReachedKeepsTheLockForItsSessionTimeout(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		link := w.Link()
		_, claim := w.claimed(recipes.Options{Dial: link.Dial})
		time.Sleep(2 * timeout)
		second := w.acquiring(w.Context(), r, waiting("b", 20*time.Second))
		link.Hold(1) // its packets do not arrive: its session expires
		w.revoked(r, claim.Token())
		<-claim.Done()
		stopped := time.Now()
		o := <-second
		require.NoError(w, o.err)
		require.Greater(w, o.at, stopped)
		link.Release()
	})
}

func TestNodeIsDeletedByForceNow(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		_, claim := w.claimed(recipes.Options{})
		second := w.acquiring(w.Context(), r, waiting("b", 20*time.Second))
		f := force(claim.Token())
		f.Mode = lease.Now
		forced, err := r.ForceRelease(w.Context(), f)
		require.NoError(w, err)
		require.True(w, forced.TokenOnly)
		require.False(w, forced.Notified)
		o := <-second
		require.NoError(w, o.err)
		require.Greater(w, o.grant.Token, claim.Token())
	})
}

func TestHolderThatDoesNotReadItsRecordCannotBeNotified(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		require.NoError(w, r.Release(w.Context(), w.acquired(r, ask("a")).Ticket))
		for _, data := range []string{"kazoo", `{"format":1,"owner":"older","nonce":"N"}`} {
			node := path + "/x-lock-0000000009"
			require.NoError(w, w.Create(node, []byte(data)))
			_, stat, err := w.Get(node)
			require.NoError(w, err)
			_, err = r.ForceRelease(w.Context(), force(fencing.Token(stat.Czxid)))
			require.ErrorIs(w, err, lease.ErrCannotNotify)
			kept, _, err := w.Get(node)
			require.NoError(w, err)
			require.Equal(w, data, string(kept))
			require.NoError(w, w.Delete(node))
		}
	})
}

func TestForcedReleaseOfWaiterInFrontDeletesIt(t *testing.T) {
	simulated(t, func(w world) {
		one, other := w.replica(), w.replica()
		g := w.acquired(one, ask("a"))
		_, err := w.acquire(other, waiting("b", time.Hour)) // its caller never asks again
		require.ErrorAs(w, err, new(*lease.WaitingError))
		require.NoError(w, one.Release(w.Context(), g.Ticket))
		status, err := one.Status(w.Context(), path)
		require.NoError(w, err)
		require.False(w, status.Contenders[0].Held)
		w.revoked(one, status.Contenders[0].Token)
		require.Empty(w, w.nodes())
	})
}

// Without a readable record it is not known whether the node is a lease's, nor when its holder
// must have stopped. Other clients could delete the node too early, so an operator has to.
func TestNodeWithUnreadableRecordIsDeletedOnlyByForce(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		g := w.acquired(r, ask("a"))
		require.NoError(w, w.Set(path+"/"+g.Ticket.Node, []byte(`{"format":1,"kind":"lease","ttl":"?"}`)))
		var held *lease.HeldError
		_, err := w.acquire(r, ask("b"))
		require.ErrorAs(w, err, &held)
		require.Empty(w, held.Front.Kind)
		_, err = r.Renew(w.Context(), time.Now(), g.Ticket, ttl)
		require.ErrorIs(w, err, lease.ErrGone)
		time.Sleep(10 * expired)
		require.Len(w, w.nodes(), 1)
		_, err = r.ForceRelease(w.Context(), force(g.Token))
		require.ErrorIs(w, err, lease.ErrCannotNotify)
		now := force(g.Token)
		now.Mode = lease.Now
		_, err = r.ForceRelease(w.Context(), now)
		require.NoError(w, err)
		require.Empty(w, w.nodes())
	})
}

// Otherwise the service would answer that it has done nothing, and withdraw the record of what it did.
func TestForcedReleaseThatWasCarriedOutWithoutAnswerSucceeds(t *testing.T) {
	for name, tt := range map[string]struct {
		mode     lease.Mode
		lost, by string // operation without an answer; who holds or waits
		left     bool   // the contender has left when the next attempt begins
		queued   bool   // another contender waits behind
	}{
		"node deleted":                            {mode: lease.Now, lost: "delete", by: "lease"},
		"node deleted, with a successor":          {mode: lease.Now, lost: "delete", by: "lease", queued: true},
		"waiter deleted":                          {mode: lease.Safe, lost: "delete", by: "waiter"},
		"lease revoked":                           {mode: lease.Safe, lost: "setData", by: "lease"},
		"lease revoked, and released":             {mode: lease.Safe, lost: "setData", by: "lease", left: true},
		"holder of the library revoked, and gone": {mode: lease.Safe, lost: "setData", by: "claim", left: true, queued: true},
	} {
		for _, ended := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, session ended: %v", name, ended), func(t *testing.T) {
				simulated(t, func(w world) {
					client := w.client(recipes.Options{})
					r := w.replicaOf(client)
					node := w.contender(tt.by)
					if tt.queued {
						w.acquiring(w.Context(), w.replica(), waiting("b", 20*time.Second))
					}
					_, stat, err := w.Get(node)
					require.NoError(w, err)
					lost := w.Intercept(zktest.Rule{Op: tt.lost, Session: client.SessionID(), Times: 1, Lose: zktest.ToClient})
					w.Intercept(zktest.Rule{Op: "connect", Session: client.SessionID(), Times: 1, Before: func(r zktest.Request) {
						if tt.left {
							require.NoError(w, w.Delete(node))
						}
						if ended {
							require.NoError(w, w.Expire(w.Context(), r.Session))
						}
					}})
					f := force(fencing.Token(stat.Czxid))
					f.Mode = tt.mode
					forced, err := r.ForceRelease(w.Context(), f)
					require.NoError(w, err)
					require.Equal(w, 1, lost.Fired())
					require.Equal(w, f.Token, forced.Token)
					require.Equal(w, filepath.Base(node), forced.Node)
					require.Equal(w, tt.lost == "setData", forced.Notified, "a waiter is deleted immediately")
				})
			})
		}
	}
}

// contender makes a lease, a waiter or a claim the front of the queue, and returns its node.
func (w world) contender(kind string) string {
	w.Helper()
	one := w.replica()
	switch kind {
	case "claim":
		w.claimed(recipes.Options{})
	case "lease":
		w.acquired(one, ask("a"))
	case "waiter":
		g := w.acquired(one, ask("a"))
		_, err := w.acquire(one, waiting("c", time.Hour)) // its caller never asks again
		require.ErrorAs(w, err, new(*lease.WaitingError))
		require.NoError(w, one.Release(w.Context(), g.Ticket))
	}
	nodes := w.nodes()
	require.Len(w, nodes, 1)
	return path + "/" + nodes[0]
}

func TestForcedReleaseThatDidNotArriveIsSentAgain(t *testing.T) {
	simulated(t, func(w world) {
		client := w.client(recipes.Options{})
		r := w.replicaOf(client)
		g := w.acquired(w.replica(), ask("a"))
		w.Intercept(zktest.Rule{Op: "delete", Session: client.SessionID(), Times: 1, Lose: zktest.ToServer})
		f := force(g.Token)
		f.Mode = lease.Now
		_, err := r.ForceRelease(w.Context(), f)
		require.NoError(w, err)
		require.Empty(w, w.nodes())
	})
}
