// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rivals

import (
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// Majorities share a server, and the lock is lost with what that one server loses: by a restart here, and likewise by a failover to
// a replica that lags. Neither holder can know, and their values have no order by which a resource could refuse one of them.
func TestQuorumOfRedisGrantsLockTwiceIfOneServerForgets(t *testing.T) {
	servers := make([]*stores.Server, fiveRedis)
	spec := &worker.Spec{Timeout: history.Instant(time.Minute)}
	for i := range servers {
		servers[i] = stores.Redis(t, &stores.Options{Args: []string{"--appendonly", "no"}})
		spec.Servers = append(spec.Servers, servers[i].Addr)
	}
	kill := func(killed ...*stores.Server) {
		for _, s := range killed {
			require.NoError(t, s.Kill(t.Context()))
		}
	}
	start := func(started ...*stores.Server) {
		for _, s := range started {
			require.NoError(t, s.Start(t.Context()))
		}
	}
	mutex := func() *redsync.Mutex {
		c := newRedsync(spec)
		t.Cleanup(c.Close)
		return c.sync.NewMutex("/a", redsync.WithExpiry(c.ttl))
	}
	one, other := mutex(), mutex()

	kill(servers[3:]...)
	require.NoError(t, one.TryLockContext(t.Context()), "three of five grant it")
	start(servers[3:]...)
	require.ErrorAs(t, other.TryLockContext(t.Context()), new(*redsync.ErrTaken), "three of five know its holder")
	kill(servers[2])
	start(servers[2])
	require.NoError(t, other.TryLockContext(t.Context()), "three of five know no holder")
	require.True(t, time.Now().Before(one.Until()), "the first holder's lock is valid for it")
	require.True(t, time.Now().Before(other.Until()))
	extended, err := other.ExtendContext(t.Context())
	require.NoError(t, err)
	require.True(t, extended)
}
