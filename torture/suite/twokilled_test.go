// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/service/client"
)

// Each pair of servers is killed at the same time, and restarted before the next. The holds, the order of the waiters and each
// write that was confirmed before are still there, and new locks are granted, by the library and by a replica of the lock service.
func TestAnyTwoOfFiveServersAreKilledAndNothingIsLost(t *testing.T) {
	t.Parallel()
	_, err := program.path()
	require.NoError(t, err)
	ensemble := start(t, docker.Options{Servers: 5})
	servers := ensemble.Servers()
	var newest fencing.Token // of all rounds, which share the counter of transactions
	for i, one := range servers {
		for _, other := range servers[i+1:] {
			t.Run(fmt.Sprintf("%d and %d", one.ID(), other.ID()), func(t *testing.T) {
				newest = surviveKills(newEnv(t, ensemble), newest, one, other)
			})
		}
	}
}

// surviveKills kills and restarts servers while locks are held and waited for. Each token must be greater than newest; the result
// is the greatest.
func surviveKills(s *env, newest fencing.Token, killed ...*docker.Server) fencing.Token {
	s.t.Helper()
	rises := func(token fencing.Token, what string) {
		s.t.Helper()
		require.Greater(s.t, token, newest, what)
		newest = token
	}
	library := s.connect(recipes.Options{SessionTimeout: 10 * time.Second})
	replica := s.service().start()
	leases, err := client.New(replica.url, &client.Options{Bearer: func() (string, error) { return "one", nil }})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, leases.Close()) })
	take := func(key, what string) *client.Hold {
		s.t.Helper()
		hold, err := leases.Lock(s.ctx, "team", key)
		require.NoError(s.t, err, what)
		rises(hold.Token(), what)
		return hold
	}
	confirmed := 0 // writes
	hold := s.lock(s.mutex(library, "lock"))
	rises(hold.Token(), "the library's, before")
	write := func() {
		s.t.Helper()
		confirmed++
		_, err := hold.Commit(s.ctx, &zk.CreateRequest{
			Path: s.path(fmt.Sprintf("write-%d", confirmed)), Acl: zk.WorldACL(zk.PermAll),
		})
		require.NoError(s.t, err)
	}
	write()
	lease := take("orders", "the service's, before")
	next := s.locking(s.ctx, s.mutex(library, "lock"))
	s.waiting("lock", 2)

	led, err := s.ensemble.Leader(s.ctx)
	require.NoError(s.t, err)
	each := func(do func(*docker.Server) error) {
		s.t.Helper()
		errs := make([]error, len(killed))
		var doing sync.WaitGroup
		for i, server := range killed {
			doing.Go(func() { errs[i] = do(server) })
		}
		doing.Wait()
		for _, err := range errs {
			require.NoError(s.t, err)
		}
	}
	began := time.Now()
	each(func(server *docker.Server) error { return server.Kill(s.ctx) })
	fresh := take("fresh", "the service's, with three servers left")
	s.t.Logf("the leader was %d; a lock was granted %v after the kills", led.ID(), time.Since(began).Round(time.Millisecond))
	require.NoError(s.t, hold.Check(s.ctx))
	write()
	status, err := leases.Status(s.ctx, "team", "orders")
	require.NoError(s.t, err)
	require.True(s.t, status.Locked)
	require.Equal(s.t, leases.Owner(), status.Owner)
	require.NoError(s.t, lease.Err())
	require.NoError(s.t, fresh.Unlock(s.ctx))
	require.False(s.t, next.over(), "the lock is held")
	s.unlock(hold)
	hold = next.granted()
	require.Less(s.t, lease.Token(), hold.Token(), "the waiter kept its node, which is newer than the lease's")
	require.Less(s.t, hold.Token(), fresh.Token(), "and older than the kills")
	write()

	each(func(server *docker.Server) error { return server.Start(s.ctx) })
	require.NoError(s.t, s.ensemble.WaitServing(s.ctx))
	for _, server := range s.ensemble.Servers() {
		conn := s.bare(server.Addr())
		_, err := conn.Sync(s.root)
		require.NoError(s.t, err)
		for i := range confirmed {
			exists, _, err := conn.Exists(s.path(fmt.Sprintf("write-%d", i+1)))
			require.NoError(s.t, err)
			require.True(s.t, exists, "server %d has write %d", server.ID(), i+1)
		}
		conn.Close()
	}
	require.NoError(s.t, hold.Check(s.ctx))
	s.unlock(hold)
	require.NoError(s.t, lease.Unlock(s.ctx))
	require.NoError(s.t, take("orders", "the service's, afterwards").Unlock(s.ctx))
	s.interrupt(replica.process)
	require.Equal(s.t, 0, s.status(replica.process))
	return newest
}
