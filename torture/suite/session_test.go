// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestDeletedNodeEndsTheHold(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(s *env, path string) error{
		"deleted": func(s *env, path string) error { return s.zk.Delete(path, -1) },
		"overwritten": func(s *env, path string) error {
			_, err := s.zk.Set(path, []byte("mine"), -1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := onThree(t)
			client := s.connect(recipes.Options{})
			hold, other := s.lock(s.mutex(client, "lock")), s.lock(s.mutex(client, "other"))
			require.NoError(t, spoil(s, hold.Path()))
			began := time.Now()
			err := s.done(hold)
			t.Logf("notified after %.2f T", time.Since(began).Seconds()/client.SessionTimeout().Seconds())
			require.ErrorIs(t, err, recipes.ErrLost)
			require.ErrorIs(t, err, recipes.ErrDeleted)
			require.ErrorIs(t, hold.Check(s.ctx), recipes.ErrLost)
			require.ErrorIs(t, hold.Unlock(s.ctx), recipes.ErrDeleted)
			s.waiting("lock", 0) // the overwritten node does not stay in the queue
			require.NoError(t, other.Check(s.ctx), "other holds of the session are not affected")
			s.unlock(other)
		})
	}
}

func TestUnlockOfALostHoldSparesSuccessor(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	opts := recipes.Options{}
	ender := s.sessionEnder(&opts)
	hold := s.lock(s.mutex(s.connect(opts), "lock"))
	next := s.locking(s.ctx, s.mutex(s.connect(recipes.Options{}), "lock"))
	s.waiting("lock", 2)
	ender.expire()
	successor := next.granted()
	require.ErrorIs(t, s.done(hold), recipes.ErrSessionExpired)
	for range 2 {
		err := hold.Unlock(s.ctx)
		require.ErrorIs(t, err, recipes.ErrLost)
		require.ErrorIs(t, err, recipes.ErrSessionExpired)
	}
	require.NoError(t, successor.Check(s.ctx))
	s.unlock(successor)
}

func TestCommitOfALostClaimChangesNothing(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	client := s.connect(recipes.Options{SessionTimeout: time.Minute}) // the next heartbeat is 10 s away
	hold := s.lock(s.mutex(client, "lock"))
	write := func(data string) []any {
		return []any{&zk.SetDataRequest{Path: s.root, Data: []byte(data), Version: -1}}
	}
	responses, err := hold.Commit(s.ctx, write("by the holder")...)
	require.NoError(t, err)
	require.Len(t, responses, 1)

	_, err = hold.Commit(s.ctx, append(write("half"), &zk.DeleteRequest{Path: s.path("missing"), Version: -1})...)
	require.ErrorIs(t, err, zk.ErrNoNode)
	require.NotErrorIs(t, err, recipes.ErrLost)
	require.NoError(t, hold.Err())

	require.NoError(t, s.zk.Delete(hold.Path(), -1))
	_, err = hold.Commit(s.ctx, write("stale")...)
	require.ErrorIs(t, err, recipes.ErrLost)
	require.ErrorIs(t, err, recipes.ErrDeleted)
	require.ErrorIs(t, s.done(hold), recipes.ErrDeleted)
	data, _, err := s.zk.Get(s.root)
	require.NoError(t, err)
	require.Equal(t, "by the holder", string(data))
}

func TestClosingTheClientFreesItsLocksImmediately(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	client := s.connect(recipes.Options{SessionTimeout: time.Minute})
	other := s.connect(recipes.Options{SessionTimeout: time.Minute})
	var holds []*lock.Hold
	var next []*locking
	for i := range 3 {
		name := fmt.Sprint("lock-", i)
		holds = append(holds, s.lock(s.mutex(client, name)))
		next = append(next, s.locking(s.ctx, s.mutex(other, name)))
		s.waiting(name, 2)
	}
	blocked := s.lock(s.mutex(other, "blocked"))
	waiter := s.locking(s.ctx, s.mutex(client, "blocked"))
	s.waiting("blocked", 2)

	began := time.Now()
	client.Close()
	for i := range holds {
		require.ErrorIs(t, s.done(holds[i]), recipes.ErrClosed)
		s.unlock(next[i].granted())
	}
	require.Less(t, time.Since(began), 30*time.Second)
	_, err := waiter.result()
	require.ErrorIs(t, err, recipes.ErrClosed)
	_, err = s.mutex(client, "blocked").Lock(s.ctx)
	require.ErrorIs(t, err, recipes.ErrClosed)
	s.waiting("blocked", 1)
	s.unlock(blocked)
}

// A server notifies a process that comes back after its session has expired.
func TestHolderOfAnEndedSessionIsNotifiedImmediately(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	opts := recipes.Options{SessionTimeout: time.Minute}
	ender := s.sessionEnder(&opts)
	hold := s.lock(s.mutex(s.connect(opts), "lock"))
	ctx, cancel := hold.Context(s.ctx)
	defer cancel()
	ender.expire()
	require.ErrorIs(t, s.done(hold), recipes.ErrSessionExpired)
	await(s, ctx.Done())
	require.Equal(t, hold.Err(), context.Cause(ctx))
}

// behindProxies returns a client that reaches each server through a proxy.
func (s *env) behindProxies(opts recipes.Options) (*recipes.Client, []*docker.Proxy) {
	s.t.Helper()
	var proxies []*docker.Proxy
	var addrs []string
	for _, server := range s.ensemble.Servers() {
		p := s.proxy(server)
		proxies = append(proxies, p)
		addrs = append(addrs, p.Addr())
	}
	return s.connect(opts, addrs...), proxies
}

func TestLockOutlivesManyConnections(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	client, proxies := s.behindProxies(recipes.Options{})
	hold := s.lock(s.mutex(client, "lock"))
	next := s.locking(s.ctx, s.mutex(client, "lock"))
	s.waiting("lock", 2)
	for range 10 {
		for _, p := range proxies {
			p.Reset()
		}
		require.NoError(t, hold.Check(s.ctx))
	}
	require.False(t, next.over())
	s.unlock(hold)
	s.unlock(next.granted())
}
