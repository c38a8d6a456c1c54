// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestUnlockOfALostHoldSparesSuccessor(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	opts := recipes.Options{}
	ender := s.sessionEnder(&opts)
	hold := s.Lock(s.Mutex(s.Connect(opts), "lock"))
	next := s.Locking(s.Ctx, s.Mutex(s.Connect(recipes.Options{}), "lock"))
	s.Waiting("lock", 2)
	ender.expire()
	successor := next.Granted()
	require.ErrorIs(t, s.Done(hold), recipes.ErrSessionExpired)
	for range 2 {
		err := hold.Unlock(s.Ctx)
		require.ErrorIs(t, err, recipes.ErrLost)
		require.ErrorIs(t, err, recipes.ErrSessionExpired)
	}
	require.NoError(t, successor.Check(s.Ctx))
	s.Unlock(successor)
}

// A server notifies a process that comes back after its session has expired.
func TestHolderOfAnEndedSessionIsNotifiedImmediately(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	opts := recipes.Options{SessionTimeout: time.Minute}
	ender := s.sessionEnder(&opts)
	hold := s.Lock(s.Mutex(s.Connect(opts), "lock"))
	ctx, cancel := hold.Context(s.Ctx)
	defer cancel()
	ender.expire()
	require.ErrorIs(t, s.Done(hold), recipes.ErrSessionExpired)
	await(s, ctx.Done())
	require.Equal(t, hold.Err(), context.Cause(ctx))
}

// behindProxies returns a client that reaches each server through a proxy.
func (s *env) behindProxies(opts recipes.Options) (*recipes.Client, []*docker.Proxy) {
	s.T.Helper()
	var proxies []*docker.Proxy
	var addrs []string
	for _, server := range s.ensemble.Servers() {
		p := s.proxy(server)
		proxies = append(proxies, p)
		addrs = append(addrs, p.Addr())
	}
	return s.Connect(opts, addrs...), proxies
}

func TestLockOutlivesManyConnections(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	client, proxies := s.behindProxies(recipes.Options{})
	hold := s.Lock(s.Mutex(client, "lock"))
	next := s.Locking(s.Ctx, s.Mutex(client, "lock"))
	s.Waiting("lock", 2)
	for range 10 {
		for _, p := range proxies {
			p.Reset()
		}
		require.NoError(t, hold.Check(s.Ctx))
	}
	require.False(t, next.Over())
	s.Unlock(hold)
	s.Unlock(next.Granted())
}
