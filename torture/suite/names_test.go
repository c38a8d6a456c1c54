// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"slices"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestForeignChildIsIgnored(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	_, err := s.zk.Create(s.path("lock"), nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	foreign := []string{
		"README", "_c_short", "lock-", "lock-abcdefghij", "lock-0000000000x", "x-lock-12", "x-lock-00000000001", "sub-0000000000",
	}
	for _, name := range foreign {
		_, err := s.zk.Create(s.path("lock")+"/"+name, []byte("theirs"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	mu := s.mutex(s.connect(recipes.Options{}), "lock")
	hold := s.lock(mu)
	next := s.locking(s.ctx, s.mutex(s.connect(recipes.Options{}), "lock"))
	s.waiting("lock", len(foreign)+2)
	require.False(t, next.over())
	s.unlock(hold)
	s.unlock(next.granted())
	hold, err = mu.TryLock(s.ctx)
	require.NoError(t, err)
	s.unlock(hold)
	slices.Sort(foreign)
	require.Equal(t, foreign, s.nodes("lock"))
}

// Nodes of Curator, of Kazoo and of go-zookeeper's own lock share one queue with ours, before them and behind them.
func TestCuratorStyleNamesQueueInOrder(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	var mu sync.Mutex // guards ahead
	ahead := make(map[string]string)
	client := s.connect(recipes.Options{Trace: &recipes.Trace{Waiting: func(_, node, before string) {
		mu.Lock()
		defer mu.Unlock()
		ahead[node] = before
	}}})
	_, err := s.zk.Create(s.path("lock"), nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	n := 0
	joined := func() {
		n++
		s.waiting("lock", n)
	}
	create := func(prefix, data string) string {
		path, err := s.zk.Create(s.path("lock")+"/"+prefix, []byte(data), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		joined()
		return path
	}

	curator := create("_c_0bd1f8a5-5a0c-4d3e-9f7c-2b1f4c7a9e11-lock-", "192.0.2.7")
	afterCurator := s.locking(s.ctx, s.mutex(client, "lock"))
	joined()
	kazoo := create("b21f3f4d9a7f4e0b8d5c3a2b1c0d9e8f__lock__", "kazoo")
	afterKazoo := s.locking(s.ctx, s.mutex(client, "lock"))
	joined()
	theirs := zk.NewLock(s.zk, s.path("lock"), zk.WorldACL(zk.PermAll))
	locked := make(chan error, 1)
	go func() { locked <- theirs.Lock() }()
	joined()
	last := s.locking(s.ctx, s.mutex(client, "lock"))
	joined()

	_, err = s.mutex(client, "lock").TryLock(s.ctx)
	var held *lock.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, "192.0.2.7", held.Holder.Owner)
	require.Equal(t, curator, held.Path+"/"+held.Holder.Name)

	require.NoError(t, s.zk.Delete(curator, -1))
	hold := afterCurator.granted()
	first := hold.Token()
	s.unlock(hold)
	require.False(t, afterKazoo.over())
	require.NoError(t, s.zk.Delete(kazoo, -1))
	hold = afterKazoo.granted()
	require.Greater(t, hold.Token(), first)
	require.Empty(t, locked)
	s.unlock(hold)
	require.NoError(t, await(s, locked))
	require.False(t, last.over())
	require.NoError(t, theirs.Unlock())
	hold = last.granted()
	s.unlock(hold)

	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, curator, s.path("lock")+"/"+ahead[afterCurator.hold.Path()])
	require.Equal(t, kazoo, s.path("lock")+"/"+ahead[afterKazoo.hold.Path()])
	require.Contains(t, ahead[last.hold.Path()], "_c_", "go-zookeeper's own lock")
}

func TestNamespaceIsPutInFront(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	client := s.connect(recipes.Options{Namespace: s.path("team")})
	mu, err := lock.New(client, "/locks/ledger", nil)
	require.NoError(t, err)
	hold := s.lock(mu)
	require.Len(t, s.nodes("team/locks/ledger"), 1)
	require.Equal(t, s.path("team/locks/ledger/")+s.nodes("team/locks/ledger")[0], hold.Path())

	plain := s.mutex(s.connect(recipes.Options{}), "team/locks/ledger")
	_, err = plain.TryLock(s.ctx)
	require.ErrorIs(t, err, lock.ErrLocked)
	s.unlock(hold)
}

func TestReapedContainerIsRecreated(t *testing.T) {
	t.Parallel()
	s := onThree(t) // its servers reap empty containers within two seconds
	mu := s.mutex(s.connect(recipes.Options{}), "deep/down/lock")
	gone := func() bool {
		exists, _, err := s.zk.Exists(s.path("deep"))
		return err == nil && !exists
	}
	hold := s.lock(mu)
	for range 2 {
		token := hold.Token()
		s.unlock(hold)
		s.eventually("the containers are gone", gone)
		hold = s.lock(mu)
		require.Greater(t, hold.Token(), token)
	}
	s.unlock(hold)
	s.eventually("the containers are gone", gone)
	hold, err := mu.TryLock(s.ctx)
	require.NoError(t, err)
	s.unlock(hold)
}
