// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// lagging runs a test with a replica that the leader serves, and one that a follower serves. The
// follower lags behind the leader once lag was called.
func lagging(t *testing.T, f func(w world, leader, follower *lease.Replica, lag func())) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		ensemble, err := zktest.Run(t.Context(), &zktest.Options{InMemory: true, Tick: timeout / 4, Servers: 3})
		require.NoError(t, err)
		defer func() { require.NoError(t, ensemble.Close()) }()
		w := world{t, ensemble}
		at := func(server int) *lease.Replica {
			client, err := recipes.Connect(t.Context(), w.Addrs()[server-1:server], &recipes.Options{
				SessionTimeout: timeout, Dial: w.Dial, Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			t.Cleanup(func() { client.Close() })
			return w.replicaOf(client)
		}
		f(w, at(1), at(2), func() { w.Server(2).Lag(timeout / 20) })
	})
}

func TestServerThatLagsEndsNoLease(t *testing.T) {
	lagging(t, func(w world, leader, follower *lease.Replica, lag func()) {
		require.NoError(w, follower.Release(w.Context(), w.acquired(follower, ask("a")).Ticket))
		lag()
		g := w.acquired(leader, ask("a"))
		_, err := follower.Renew(w.Context(), time.Now(), g.Ticket, ttl)
		require.NoError(w, err, "it does not know the node yet")
		require.NoError(w, leader.Release(w.Context(), g.Ticket))

		g = w.acquired(leader, shared("1"))
		time.Sleep(timeout / 10)
		g = w.acquired(leader, shared("2"))
		_, err = follower.Renew(w.Context(), time.Now(), g.Ticket, ttl)
		require.NoError(w, err, "it does not know that the request shares the lease")
	})
}

// The answer to the first request was lost, and the repeat comes to a server that still shows the
// former holder. A refusal would leave a lease that no caller knows of.
func TestServerThatLagsRefusesNoRequestThatWasGranted(t *testing.T) {
	for name, req := range map[string]lease.Request{"plain": ask("a"), "shared": shared("1")} {
		t.Run(name, func(t *testing.T) {
			lagging(t, func(w world, leader, follower *lease.Replica, lag func()) {
				former := w.acquired(leader, ask("former"))
				time.Sleep(timeout / 10)
				lag()
				require.NoError(w, leader.Release(w.Context(), former.Ticket))
				g := w.acquired(leader, req)
				again, err := w.acquire(follower, req)
				require.NoError(w, err)
				require.Equal(w, g.Ticket, again.Ticket)
			})
		})
	}
}

func TestServerThatLagsDoesNotHideTheLeaseFromForceRelease(t *testing.T) {
	lagging(t, func(w world, leader, follower *lease.Replica, lag func()) {
		require.NoError(w, leader.Release(w.Context(), w.acquired(leader, ask("former")).Ticket))
		time.Sleep(timeout / 10)
		lag()
		g := w.acquired(leader, ask("a"))
		_, err := follower.ForceRelease(w.Context(), force(g.Token))
		require.NoError(w, err)
	})
}
