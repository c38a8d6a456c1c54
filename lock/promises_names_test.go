// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/recipetest"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestForeignChildIsIgnored(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	_, err := s.ZK.Create(s.Path("lock"), nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	foreign := []string{
		"README", "_c_short", "lock-", "lock-abcdefghij", "lock-0000000000x", "x-lock-12", "x-lock-00000000001", "sub-0000000000",
	}
	for _, name := range foreign {
		_, err := s.ZK.Create(s.Path("lock")+"/"+name, []byte("theirs"), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	mu := s.Mutex(s.Connect(recipes.Options{}), "lock")
	hold := s.Lock(mu)
	next := s.Locking(s.Ctx, s.Mutex(s.Connect(recipes.Options{}), "lock"))
	s.Waiting("lock", len(foreign)+2)
	require.False(t, next.Over())
	s.Unlock(hold)
	s.Unlock(next.Granted())
	hold, err = mu.TryLock(s.Ctx)
	require.NoError(t, err)
	s.Unlock(hold)
	slices.Sort(foreign)
	require.Equal(t, foreign, s.Nodes("lock"))
}

// Nodes of Curator, of Kazoo and of go-zookeeper's own lock share one queue with ours, before them and behind them.
func TestCuratorStyleNamesQueueInOrder(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	var mu sync.Mutex // guards ahead
	ahead := make(map[string]string)
	client := s.Connect(recipes.Options{Trace: &recipes.Trace{Waiting: func(e recipes.QueueEvent) {
		mu.Lock()
		defer mu.Unlock()
		ahead[e.Node] = e.Ahead
	}}})
	_, err := s.ZK.Create(s.Path("lock"), nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	n := 0
	joined := func() {
		n++
		s.Waiting("lock", n)
	}
	queued := func(of int) { // a contender of ours that has joined and has not listed the queue yet may find another predecessor
		s.Eventually(fmt.Sprintf("%d contenders of ours wait", of), func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(ahead) == of
		})
	}
	create := func(prefix, data string) string {
		path, err := s.ZK.Create(s.Path("lock")+"/"+prefix, []byte(data), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		joined()
		return path
	}

	curator := create("_c_0bd1f8a5-5a0c-4d3e-9f7c-2b1f4c7a9e11-lock-", "192.0.2.7")
	afterCurator := s.Locking(s.Ctx, s.Mutex(client, "lock"))
	joined()
	queued(1)
	kazoo := create("b21f3f4d9a7f4e0b8d5c3a2b1c0d9e8f__lock__", "kazoo")
	afterKazoo := s.Locking(s.Ctx, s.Mutex(client, "lock"))
	joined()
	queued(2)
	theirs := zk.NewLock(s.ZK, s.Path("lock"), zk.WorldACL(zk.PermAll))
	locked := make(chan error, 1)
	go func() { locked <- theirs.Lock() }()
	joined()
	last := s.Locking(s.Ctx, s.Mutex(client, "lock"))
	joined()
	queued(3)

	_, err = s.Mutex(client, "lock").TryLock(s.Ctx)
	var held *lock.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, "192.0.2.7", held.Holder.Owner)
	require.Equal(t, curator, held.Path+"/"+held.Holder.Name)

	require.NoError(t, s.ZK.Delete(curator, -1))
	hold := afterCurator.Granted()
	first := hold.Token()
	s.Unlock(hold)
	require.False(t, afterKazoo.Over())
	require.NoError(t, s.ZK.Delete(kazoo, -1))
	hold = afterKazoo.Granted()
	require.Greater(t, hold.Token(), first)
	require.Empty(t, locked)
	s.Unlock(hold)
	require.NoError(t, recipetest.Await(s, locked))
	require.False(t, last.Over())
	require.NoError(t, theirs.Unlock())
	hold = last.Granted()
	s.Unlock(hold)

	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, curator, s.Path("lock")+"/"+ahead[afterCurator.Hold.Path()])
	require.Equal(t, kazoo, s.Path("lock")+"/"+ahead[afterKazoo.Hold.Path()])
	require.Contains(t, ahead[last.Hold.Path()], "_c_", "go-zookeeper's own lock")
}

func TestNamespaceIsPutInFront(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	client := s.Connect(recipes.Options{Namespace: s.Path("team")})
	mu, err := lock.New(client, "/locks/ledger", nil)
	require.NoError(t, err)
	hold := s.Lock(mu)
	require.Len(t, s.Nodes("team/locks/ledger"), 1)
	require.Equal(t, s.Path("team/locks/ledger/")+s.Nodes("team/locks/ledger")[0], hold.Path())

	plain := s.Mutex(s.Connect(recipes.Options{}), "team/locks/ledger")
	_, err = plain.TryLock(s.Ctx)
	require.ErrorIs(t, err, lock.ErrLocked)
	s.Unlock(hold)
}
