// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// requireParentUnchanged requires that a lock works on a parent with these data and this ACL, and does not change the data.
func requireParentUnchanged(t *testing.T, data []byte, acl []zk.ACL) {
	t.Helper()
	s := onThree(t)
	_, err := s.zk.Create(s.path("lock"), data, 0, acl)
	require.NoError(t, err)
	proxy := s.proxy(s.ensemble.Servers()[0])
	mu := s.mutex(s.connect(recipes.Options{}, proxy.Addr()), "lock")
	hold := s.lock(mu)
	require.EqualValues(t, s.stat(hold.Path()).Czxid, hold.Token())

	ctx, cancel := context.WithCancel(s.ctx)
	next := s.locking(ctx, mu)
	s.waiting("lock", 2)
	cancel()
	_, err = next.result()
	require.ErrorIs(t, err, context.Canceled)
	s.waiting("lock", 1)

	lost := proxy.LoseReply(isJoin)
	next = s.locking(s.ctx, mu)
	await(s, lost)
	s.waiting("lock", 2)
	s.unlock(hold)
	require.Greater(t, next.granted().Token(), hold.Token())
	s.unlock(next.hold)
	hold, err = mu.TryLock(s.ctx)
	require.NoError(t, err)
	s.unlock(hold)

	got, stat, err := s.zk.Get(s.path("lock"))
	require.NoError(t, err)
	require.Equal(t, string(data), string(got))
	require.Zero(t, stat.Version)
}

func TestParentThatMayNotBeWrittenStillLocks(t *testing.T) {
	t.Parallel()
	requireParentUnchanged(t, nil, zk.WorldACL(zk.PermRead|zk.PermCreate|zk.PermDelete))
}

func TestDigestAndACLProtectTheLock(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	proxy := s.proxy(s.ensemble.Servers()[0])
	alice := s.connect(recipes.Options{
		Auth: []recipes.Auth{recipes.Digest("alice", "secret")},
		ACL:  zk.DigestACL(zk.PermAll, "alice", "secret"),
	}, proxy.Addr())
	mu := s.mutex(alice, "lock")
	hold := s.lock(mu)
	require.ErrorIs(t, s.zk.Delete(hold.Path(), -1), zk.ErrNoAuth)
	_, _, err := s.zk.Get(hold.Path())
	require.ErrorIs(t, err, zk.ErrNoAuth)

	stranger := s.mutex(s.connect(recipes.Options{}), "lock")
	_, err = stranger.Lock(s.ctx)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	_, err = stranger.TryLock(s.ctx)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	require.NotErrorIs(t, err, lock.ErrLocked)

	proxy.Reset() // credentials belong to a connection
	require.NoError(t, hold.Check(s.ctx))
	next := s.locking(s.ctx, mu)
	require.NoError(t, s.zk.AddAuth("digest", []byte("alice:secret")))
	s.waiting("lock", 2)
	s.unlock(hold)
	s.unlock(next.granted())
}

func TestWrongCredentialsAreAnErrorAtTheFirstCall(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	began := time.Now()
	_, err := s.zk.Create(s.path("lock"), nil, 0, zk.DigestACL(zk.PermAll, "alice", "secret"))
	require.NoError(t, err)
	mu := s.mutex(s.connect(recipes.Options{Auth: []recipes.Auth{recipes.Digest("alice", "wrong")}}), "lock")
	_, err = mu.Lock(s.ctx)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	_, err = mu.TryLock(s.ctx)
	require.ErrorIs(t, err, zk.ErrNoAuth)

	// The servers refuse the session for credentials of an unknown scheme.
	_, err = recipes.Connect(s.ctx, s.ensemble.Addrs(), &recipes.Options{Auth: []recipes.Auth{{Scheme: "unheard-of", Data: []byte("x")}}})
	require.ErrorIs(t, err, zk.ErrAuthFailed)
	require.Less(t, time.Since(began), 30*time.Second, "immediately")
	require.NoError(t, s.zk.AddAuth("digest", []byte("alice:secret")))
}
