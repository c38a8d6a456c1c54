// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/recipetest"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestDeletedNodeEndsTheHold(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(s *recipetest.Env, path string) error{
		"deleted": func(s *recipetest.Env, path string) error { return s.ZK.Delete(path, -1) },
		"overwritten": func(s *recipetest.Env, path string) error {
			_, err := s.ZK.Set(path, []byte("mine"), -1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := recipetest.New(t)
			client := s.Connect(recipes.Options{})
			hold, other := s.Lock(s.Mutex(client, "lock")), s.Lock(s.Mutex(client, "other"))
			require.NoError(t, spoil(s, hold.Path()))
			began := time.Now()
			err := s.Done(hold)
			t.Logf("notified after %.2f T", time.Since(began).Seconds()/client.SessionTimeout().Seconds())
			require.ErrorIs(t, err, recipes.ErrLost)
			require.ErrorIs(t, err, recipes.ErrDeleted)
			require.ErrorIs(t, hold.Check(s.Ctx), recipes.ErrLost)
			require.ErrorIs(t, hold.Unlock(s.Ctx), recipes.ErrDeleted)
			s.Waiting("lock", 0) // the overwritten node does not stay in the queue
			require.NoError(t, other.Check(s.Ctx), "other holds of the session are not affected")
			s.Unlock(other)
		})
	}
}

func TestCommitOfALostClaimChangesNothing(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	client := s.Connect(recipes.Options{SessionTimeout: time.Minute}) // the next heartbeat is 10 s away
	hold := s.Lock(s.Mutex(client, "lock"))
	write := func(data string) []any {
		return []any{&zk.SetDataRequest{Path: s.Root, Data: []byte(data), Version: -1}}
	}
	responses, err := hold.Commit(s.Ctx, write("by the holder")...)
	require.NoError(t, err)
	require.Len(t, responses, 1)

	_, err = hold.Commit(s.Ctx, append(write("half"), &zk.DeleteRequest{Path: s.Path("missing"), Version: -1})...)
	require.ErrorIs(t, err, zk.ErrNoNode)
	require.NotErrorIs(t, err, recipes.ErrLost)
	require.NoError(t, hold.Err())

	require.NoError(t, s.ZK.Delete(hold.Path(), -1))
	_, err = hold.Commit(s.Ctx, write("stale")...)
	require.ErrorIs(t, err, recipes.ErrLost)
	require.ErrorIs(t, err, recipes.ErrDeleted)
	require.ErrorIs(t, s.Done(hold), recipes.ErrDeleted)
	data, _, err := s.ZK.Get(s.Root)
	require.NoError(t, err)
	require.Equal(t, "by the holder", string(data))
}

func TestClosingTheClientFreesItsLocksImmediately(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	client := s.Connect(recipes.Options{SessionTimeout: time.Minute})
	other := s.Connect(recipes.Options{SessionTimeout: time.Minute})
	var holds []*lock.Hold
	var next []*recipetest.Locking
	for i := range 3 {
		name := fmt.Sprint("lock-", i)
		holds = append(holds, s.Lock(s.Mutex(client, name)))
		next = append(next, s.Locking(s.Ctx, s.Mutex(other, name)))
		s.Waiting(name, 2)
	}
	blocked := s.Lock(s.Mutex(other, "blocked"))
	waiter := s.Locking(s.Ctx, s.Mutex(client, "blocked"))
	s.Waiting("blocked", 2)

	began := time.Now()
	client.Close()
	for i := range holds {
		require.ErrorIs(t, s.Done(holds[i]), recipes.ErrClosed)
		s.Unlock(next[i].Granted())
	}
	require.Less(t, time.Since(began), 30*time.Second)
	_, err := waiter.Result()
	require.ErrorIs(t, err, recipes.ErrClosed)
	_, err = s.Mutex(client, "blocked").Lock(s.Ctx)
	require.ErrorIs(t, err, recipes.ErrClosed)
	s.Waiting("blocked", 1)
	s.Unlock(blocked)
}
