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
	_, err := s.ZK.Create(s.Path("lock"), data, 0, acl)
	require.NoError(t, err)
	proxy := s.proxy(s.ensemble.Servers()[0])
	mu := s.Mutex(s.Connect(recipes.Options{SessionTimeout: unhurried}, proxy.Addr()), "lock")
	hold := s.Lock(mu)
	require.EqualValues(t, s.Stat(hold.Path()).Czxid, hold.Token())

	ctx, cancel := context.WithCancel(s.Ctx)
	next := s.Locking(ctx, mu)
	s.Waiting("lock", 2)
	cancel()
	_, err = next.Result()
	require.ErrorIs(t, err, context.Canceled)
	s.Waiting("lock", 1)

	lost := proxy.LoseReply(isJoin)
	next = s.Locking(s.Ctx, mu)
	await(s, lost)
	s.Waiting("lock", 2)
	s.Unlock(hold)
	require.Greater(t, next.Granted().Token(), hold.Token())
	s.Unlock(next.Hold)
	hold, err = mu.TryLock(s.Ctx)
	require.NoError(t, err)
	s.Unlock(hold)

	got, stat, err := s.ZK.Get(s.Path("lock"))
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
	alice := s.Connect(recipes.Options{
		Auth: []recipes.Auth{recipes.Digest("alice", "secret")},
		ACL:  zk.DigestACL(zk.PermAll, "alice", "secret"),
	}, proxy.Addr())
	mu := s.Mutex(alice, "lock")
	hold := s.Lock(mu)
	require.ErrorIs(t, s.ZK.Delete(hold.Path(), -1), zk.ErrNoAuth)
	_, _, err := s.ZK.Get(hold.Path())
	require.ErrorIs(t, err, zk.ErrNoAuth)

	stranger := s.Mutex(s.Connect(recipes.Options{}), "lock")
	_, err = stranger.Lock(s.Ctx)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	_, err = stranger.TryLock(s.Ctx)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	require.NotErrorIs(t, err, lock.ErrLocked)

	proxy.Reset() // credentials belong to a connection
	require.NoError(t, hold.Check(s.Ctx))
	next := s.Locking(s.Ctx, mu)
	require.NoError(t, s.ZK.AddAuth("digest", []byte("alice:secret")))
	s.Waiting("lock", 2)
	s.Unlock(hold)
	s.Unlock(next.Granted())
}

func TestWrongCredentialsAreAnErrorAtTheFirstCall(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	began := time.Now()
	_, err := s.ZK.Create(s.Path("lock"), nil, 0, zk.DigestACL(zk.PermAll, "alice", "secret"))
	require.NoError(t, err)
	mu := s.Mutex(s.Connect(recipes.Options{Auth: []recipes.Auth{recipes.Digest("alice", "wrong")}}), "lock")
	_, err = mu.Lock(s.Ctx)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	_, err = mu.TryLock(s.Ctx)
	require.ErrorIs(t, err, zk.ErrNoAuth)

	// The servers refuse the session for credentials of an unknown scheme.
	_, err = recipes.Connect(s.Ctx, s.ensemble.Addrs(), &recipes.Options{Auth: []recipes.Auth{{Scheme: "unheard-of", Data: []byte("x")}}})
	require.ErrorIs(t, err, zk.ErrAuthFailed)
	require.Less(t, time.Since(began), 30*time.Second, "immediately")
	require.NoError(t, s.ZK.AddAuth("digest", []byte("alice:secret")))
}
