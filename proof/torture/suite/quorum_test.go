// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/service/client"
)

var pairs = flag.Int("suite.pairs", 2, "of five servers, to kill at the same time; 10 for all")

// Pairs of servers, in random order, are killed at the same time, and restarted before the next pair: with the leader and without it
// in turn, while both are left. The holds, the order of the waiters and each write that was confirmed before are still there, and new
// locks are granted, by the library and by a replica of the lock service.
func TestAnyTwoOfFiveServersAreKilledAndNothingIsLost(t *testing.T) {
	t.Parallel()
	_, err := program.path()
	require.NoError(t, err)
	ensemble := five.lend(t)
	servers := ensemble.Servers()
	var all [][2]*docker.Server
	for i, one := range servers {
		for _, other := range servers[i+1:] {
			all = append(all, [2]*docker.Server{one, other})
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var newest fencing.Token // of all rounds, which share the counter of transactions
	for round := range min(*pairs, len(all)) {
		leader, err := ensemble.Leader(t.Context())
		require.NoError(t, err)
		next := max(0, slices.IndexFunc(all, func(pair [2]*docker.Server) bool {
			return slices.Contains(pair[:], leader) == (round%2 == 0)
		}))
		pair := all[next]
		all = slices.Delete(all, next, next+1)
		t.Run(fmt.Sprintf("%d and %d", pair[0].ID(), pair[1].ID()), func(t *testing.T) {
			newest = surviveKills(newEnv(t, ensemble), newest, pair[:]...)
		})
	}
}

// surviveKills kills and restarts servers while locks are held and waited for. Each token must be greater than newest; the result
// is the greatest.
func surviveKills(s *env, newest fencing.Token, killed ...*docker.Server) fencing.Token {
	s.T.Helper()
	rises := func(token fencing.Token, what string) {
		s.T.Helper()
		require.Greater(s.T, token, newest, what)
		newest = token
	}
	library := s.Connect(recipes.Options{SessionTimeout: 10 * time.Second})
	replica := s.service().start()
	leases := replica.client()
	take := func(key, what string) *client.Hold {
		s.T.Helper()
		hold, err := leases.Lock(s.Ctx, "team", key)
		require.NoError(s.T, err, what)
		rises(hold.Token(), what)
		return hold
	}
	confirmed := 0 // writes
	hold := s.Lock(s.Mutex(library, "lock"))
	rises(hold.Token(), "the library's, before")
	write := func() {
		s.T.Helper()
		confirmed++
		_, err := hold.Commit(s.Ctx, &zk.CreateRequest{
			Path: s.Path(fmt.Sprintf("write-%d", confirmed)), Acl: zk.WorldACL(zk.PermAll),
		})
		require.NoError(s.T, err)
	}
	write()
	lease := take("orders", "the service's, before")
	next := s.Locking(s.Ctx, s.Mutex(library, "lock"))
	s.Waiting("lock", 2)

	led, err := s.ensemble.Leader(s.Ctx)
	require.NoError(s.T, err)
	began := time.Now()
	each(s.T, killed, func(server *docker.Server) error { return server.Kill(s.Ctx) })
	fresh := take("fresh", "the service's, with three servers left")
	s.T.Logf("the leader was %d; a lock was granted %v after the kills", led.ID(), time.Since(began).Round(time.Millisecond))
	require.NoError(s.T, hold.Check(s.Ctx))
	write()
	status, err := leases.Status(s.Ctx, "team", "orders")
	require.NoError(s.T, err)
	require.True(s.T, status.Locked)
	require.Equal(s.T, leases.Owner(), status.Owner)
	require.NoError(s.T, lease.Err())
	require.NoError(s.T, fresh.Unlock(s.Ctx))
	require.False(s.T, next.Over(), "the lock is held")
	s.Unlock(hold)
	hold = next.Granted()
	require.Less(s.T, lease.Token(), hold.Token(), "the waiter kept its node, which is newer than the lease's")
	require.Less(s.T, hold.Token(), fresh.Token(), "and older than the kills")
	write()

	each(s.T, killed, func(server *docker.Server) error { return server.Start(s.Ctx) })
	require.NoError(s.T, s.ensemble.WaitServing(s.Ctx))
	for _, server := range s.ensemble.Servers() {
		conn := s.Bare(server.Addr())
		_, err := conn.Sync(s.Root)
		require.NoError(s.T, err)
		for i := range confirmed {
			exists, _, err := conn.Exists(s.Path(fmt.Sprintf("write-%d", i+1)))
			require.NoError(s.T, err)
			require.True(s.T, exists, "server %d has write %d", server.ID(), i+1)
		}
		conn.Close()
	}
	require.NoError(s.T, hold.Check(s.Ctx))
	s.Unlock(hold)
	require.NoError(s.T, lease.Unlock(s.Ctx))
	require.NoError(s.T, take("orders", "the service's, afterwards").Unlock(s.Ctx))
	s.interrupt(replica.process)
	require.Equal(s.T, 0, s.status(replica.process))
	return newest
}

// client returns a client of the service whose only replica this is.
func (r *replica) client() *client.Client {
	t := r.service.env.T
	t.Helper()
	c, err := client.New(r.url, &client.Options{Bearer: func() (string, error) { return "one", nil }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// each calls do for all servers at the same time.
func each(tb testing.TB, servers []*docker.Server, do func(*docker.Server) error) {
	tb.Helper()
	errs := make([]error, len(servers))
	var doing sync.WaitGroup
	for i, server := range servers {
		doing.Go(func() { errs[i] = do(server) })
	}
	doing.Wait()
	for _, err := range errs {
		require.NoError(tb, err)
	}
}

// The two servers that are left cannot know whether the other three grant locks: consistency before availability.
func TestNothingIsGrantedWhileThreeOfFiveServersAreDown(t *testing.T) {
	t.Parallel()
	_, err := program.path()
	require.NoError(t, err)
	s := onLent(t, five)
	library := s.Connect(recipes.Options{})
	replica := s.service().start()
	leases := replica.client()
	hold := s.Lock(s.Mutex(library, "lock"))
	killed := s.ensemble.Servers()[:3]

	each(t, killed, func(server *docker.Server) error { return server.Kill(s.Ctx) })
	require.ErrorIs(t, s.Done(hold), recipes.ErrLost, "the holder is notified")
	brief, cancel := context.WithTimeout(s.Ctx, 2*time.Second)
	defer cancel()
	_, err = s.Mutex(library, "fresh").TryLock(brief)
	require.Error(t, err)
	require.NotErrorIs(t, err, lock.ErrLocked, "the lock is not held")
	brief, cancel = context.WithTimeout(s.Ctx, 2*time.Second)
	defer cancel()
	_, err = leases.TryLock(brief, "team", "fresh")
	require.ErrorIs(t, err, client.ErrUnavailable)

	each(t, killed, func(server *docker.Server) error { return server.Start(s.Ctx) })
	next := s.Lock(s.Mutex(library, "lock"))
	require.Greater(t, next.Token(), hold.Token())
	s.Unlock(next)
	_ = hold.Unlock(s.Ctx) // it was lost
	lease, err := leases.Lock(s.Ctx, "team", "fresh")
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(s.Ctx))
	s.interrupt(replica.process)
	require.Equal(t, 0, s.status(replica.process))
}
