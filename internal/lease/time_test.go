// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// orphan leaves a lease whose replica and holder have disappeared.
func (w world) orphan(req lease.Request) lease.Grant {
	w.Helper()
	client := w.client(recipes.Options{})
	r := w.replicaOf(client)
	g := w.acquired(r, req)
	r.Close()
	client.Close()
	return g
}

func TestReplicaThatWroteLeaseDeletesItWhenItIsNotRenewed(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		g := w.acquired(r, ask("a"))
		time.Sleep(notYet)
		require.Len(w, w.nodes(), 1)
		_, err := r.Renew(w.Context(), time.Now(), g.Ticket, ttl)
		require.NoError(w, err)
		time.Sleep(notYet)
		require.Len(w, w.nodes(), 1)
		time.Sleep(timeout / 50)
		require.Empty(w, w.nodes())
		_, err = r.Renew(w.Context(), time.Now(), g.Ticket, ttl)
		require.ErrorIs(w, err, lease.ErrGone)
		require.ErrorIs(w, r.Release(w.Context(), g.Ticket), lease.ErrGone)
	})
}

func TestHolderThatKeepsTheRuleStopsBeforeAnotherIsGranted(t *testing.T) {
	simulated(t, func(w world) {
		one, other := w.replica(), w.replica()
		sent := time.Now()
		g := w.acquired(one, ask("a"))
		second := w.acquiring(w.Context(), other, waiting("b", 20*time.Second))
		o := <-second
		var poll *lease.HeldError
		require.ErrorAs(w, o.err, &poll)
		second = w.acquiring(w.Context(), other, waiting("b", 20*time.Second))
		o = <-second
		require.NoError(w, o.err)
		require.Greater(w, o.at.Sub(sent), g.Valid*65/64, "also if its clock is slower by 1/64")
		require.LessOrEqual(w, o.at.Sub(sent), ttl*33/32+time.Millisecond)
	})
}

func TestLibraryWaiterDeletesLeaseAhead(t *testing.T) {
	simulated(t, func(w world) {
		var deleted []string
		client := w.client(recipes.Options{Trace: &recipes.Trace{Expired: func(e recipes.QueueEvent) { deleted = append(deleted, e.Node) }}})
		queue, err := queue.New(client, path, nil)
		require.NoError(w, err)
		g := w.orphan(ask("a"))
		began := time.Now()
		claim, err := queue.Claim(w.Context())
		require.NoError(w, err)
		require.InDelta(w, (ttl * 33 / 32).Seconds(), time.Since(began).Seconds(), 0.1)
		require.Len(w, w.nodes(), 1)
		require.Equal(w, []string{queue.Path() + "/" + g.Ticket.Node}, deleted)
		require.NoError(w, claim.Err())
	})
}

func TestRenewalCostsLibraryWaiterOneReadAndStartsItsWaitAgain(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		g := w.acquired(r, ask("a"))
		queue, err := queue.New(w.client(recipes.Options{}), path, nil)
		require.NoError(w, err)
		claimed := make(chan error, 1)
		go func() {
			_, err := queue.Claim(w.Context())
			claimed <- err
		}()
		w.nodes()
		for range 5 {
			time.Sleep(notYet)
			reads := w.Intercept(zktest.Rule{When: func(r zktest.Request) bool { return r.Watch }})
			listings := w.Intercept(zktest.Rule{Op: "getChildren"})
			_, err := r.Renew(w.Context(), time.Now(), g.Ticket, ttl)
			require.NoError(w, err)
			w.nodes()
			require.Equal(w, 1, reads.Fired())
			require.Zero(w, listings.Fired())
		}
		require.Empty(w, claimed)
		require.NoError(w, r.Release(w.Context(), g.Ticket))
		require.NoError(w, <-claimed)
	})
}

// A client that polls with Try instead of waiting must not find an orphan for ever.
func TestTryStartsObservationOfLease(t *testing.T) {
	simulated(t, func(w world) {
		g := w.orphan(ask("a"))
		queue, err := queue.New(w.client(recipes.Options{}), path, nil)
		require.NoError(w, err)
		var busy *recipes.BusyError
		_, err = queue.Try(w.Context())
		require.ErrorAs(w, err, &busy)
		require.Equal(w, g.Ticket.Node, busy.Front.Name)
		time.Sleep(notYet)
		_, err = queue.Try(w.Context())
		require.ErrorAs(w, err, &busy)
		time.Sleep(timeout / 50)
		_, err = queue.Try(w.Context())
		require.NoError(w, err)
	})
}

func TestRefusedRequestAndStatusStartObservationOfLease(t *testing.T) {
	for name, look := range map[string]func(w world, r *lease.Replica) error{
		"acquire": func(w world, r *lease.Replica) error {
			_, err := w.acquire(r, ask("b"))
			return err
		},
		"status": func(w world, r *lease.Replica) error {
			_, err := r.Status(w.Context(), path)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, func(w world) {
				w.orphan(ask("a"))
				_ = look(w, w.replica())
				time.Sleep(notYet)
				require.Len(w, w.nodes(), 1)
				time.Sleep(timeout / 50)
				require.Empty(w, w.nodes())
			})
		})
	}
}

func TestWaiterWhoseReplicaDisappearedIsPassedOver(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		g := w.acquired(r, ask("a"))
		client := w.client(recipes.Options{})
		w.acquiring(w.Context(), w.replicaOf(client), waiting("b", time.Hour))
		require.Len(w, w.nodes(), 2)
		client.Close()
		third := w.acquiring(w.Context(), r, waiting("c", 20*time.Second))
		require.NoError(w, r.Release(w.Context(), g.Ticket))
		w.requireWaiting(third)
		require.ErrorAs(w, (<-third).err, new(*lease.HeldError))
		third = w.acquiring(w.Context(), r, waiting("c", 20*time.Second))
		o := <-third
		require.NoError(w, o.err, "within the TTL of a waiter")
	})
}

// No holder can renew while no server answers: if the timers went on, each outage would end
// all leases.
func TestOutageEndsNoLease(t *testing.T) {
	simulated(t, func(w world) {
		link := w.Link()
		r := w.replicaOf(w.client(recipes.Options{Dial: link.Dial}))
		g := w.acquired(r, ask("a"))
		watched, err := queue.New(w.client(recipes.Options{Dial: link.Dial}), path, nil)
		require.NoError(w, err)
		_, err = watched.Try(w.Context())
		require.Error(w, err)
		time.Sleep(ttl / 2)
		link.Hold(zktest.Both)
		link.Refuse(true)
		time.Sleep(2 * ttl)
		link.Release()
		link.Refuse(false)
		time.Sleep(ttl * 4 / 5) // the observations begin again at the end of the outage
		_, err = r.Renew(w.Context(), time.Now(), g.Ticket, ttl)
		require.NoError(w, err)
		time.Sleep(notYet)
		require.Len(w, w.nodes(), 1)
		time.Sleep(expired)
		require.Empty(w, w.nodes())
	})
}
