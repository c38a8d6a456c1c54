// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/recipetest"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// The lock alone guards plain variables: on a double grant the race detector reports a race, and counts are lost.
func TestLockExcludesLock(t *testing.T) {
	s := recipetest.New(t)
	const clients, goroutines, cycles = 4, 4, 20
	var (
		counter int
		newest  fencing.Token
		stale   []error
	)
	errs := make(chan error, clients*goroutines)
	for range clients {
		mu := s.Mutex(s.Connect(recipes.Options{}), "lock")
		for range goroutines {
			go func() {
				errs <- func() error {
					for range cycles {
						hold, err := mu.Lock(s.Ctx)
						if err != nil {
							return err
						}
						counter++
						if hold.Token() <= newest {
							stale = append(stale, fmt.Errorf("token %d after %d", hold.Token(), newest))
						}
						newest = hold.Token()
						if err := hold.Unlock(s.Ctx); err != nil {
							return err
						}
					}
					return nil
				}()
			}()
		}
	}
	for range clients * goroutines {
		require.NoError(t, recipetest.Await(s, errs))
	}
	require.Equal(t, clients*goroutines*cycles, counter)
	require.Empty(t, stale)
}

func TestWaitersAreServedInOrder(t *testing.T) {
	s := recipetest.New(t)
	var mutexes []*lock.Mutex
	for range 3 {
		mutexes = append(mutexes, s.Mutex(s.Connect(recipes.Options{}), "lock"))
	}
	hold := s.Lock(mutexes[0])
	const waiters = 12
	var mu sync.Mutex // guards served
	var served, want []int
	errs := make(chan error, waiters)
	for i := range waiters {
		waiter := s.Locking(s.Ctx, mutexes[i%len(mutexes)])
		s.Waiting("lock", i+2)
		want = append(want, i)
		go func() {
			<-waiter.Ended
			if waiter.Err != nil {
				errs <- waiter.Err
				return
			}
			mu.Lock()
			served = append(served, i)
			mu.Unlock()
			errs <- waiter.Hold.Unlock(s.Ctx)
		}()
	}
	s.Unlock(hold)
	for range waiters {
		require.NoError(t, recipetest.Await(s, errs))
	}
	require.Equal(t, want, served)
}

func TestCancelledWaiterLeavesNoNode(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	mu := s.Mutex(s.Connect(recipes.Options{}), "lock")
	hold := s.Lock(mu)
	ctx, cancel := context.WithCancelCause(s.Ctx)
	first := s.Locking(ctx, mu)
	s.Waiting("lock", 2)
	second := s.Locking(s.Ctx, mu)
	s.Waiting("lock", 3)

	cause := errors.New("configuration has changed")
	cancel(cause)
	_, err := first.Result()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, cause)
	require.Len(t, s.Nodes("lock"), 2, "gone when Lock has returned")

	require.False(t, second.Over())
	s.Unlock(hold)
	s.Unlock(second.Granted())
}

func TestTimedOutLockLeavesNoNode(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	mu := s.Mutex(s.Connect(recipes.Options{}), "lock")
	hold := s.Lock(s.Mutex(s.Connect(recipes.Options{}), "lock"))
	ctx, cancel := context.WithTimeout(s.Ctx, 200*time.Millisecond)
	defer cancel()
	_, err := mu.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Len(t, s.Nodes("lock"), 1, "gone when Lock has returned")

	cancel()
	_, err = mu.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Len(t, s.Nodes("lock"), 1)
	s.Unlock(hold)
}

// The cancellation can come before, during or after the join.
func TestLockCancelledAtAnyMomentLeavesNoNode(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	client := s.Connect(recipes.Options{})
	for _, name := range []string{"free", "held"} {
		mu := s.Mutex(client, name)
		var hold *lock.Hold
		if name == "held" {
			hold = s.Lock(mu)
		}
		for i := range 40 {
			ctx, cancel := context.WithTimeout(s.Ctx, time.Duration(i)*100*time.Microsecond)
			got, err := mu.Lock(ctx)
			cancel()
			if err == nil {
				s.Unlock(got)
				continue
			}
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		s.Eventually("no node of a cancelled Lock", func() bool { return len(s.Nodes(name)) == 0 || hold != nil && len(s.Nodes(name)) == 1 })
		if hold != nil {
			s.Unlock(hold)
		}
	}
}

func TestUnlockAfterCancelStillUnlocks(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	mu := s.Mutex(s.Connect(recipes.Options{}), "lock")
	ctx, cancel := context.WithCancel(s.Ctx)
	hold, err := mu.Lock(ctx)
	require.NoError(t, err)
	cancel()
	require.NoError(t, hold.Err(), "ctx bounds the call, not the hold")
	require.NoError(t, hold.Unlock(ctx))
	require.ErrorIs(t, hold.Err(), recipes.ErrReleased)
	require.Empty(t, s.Nodes("lock"))
	require.NoError(t, hold.Unlock(ctx), "the first result again")
}

func TestTryLockOnAFreeLockTakesIt(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	mu := s.Mutex(s.Connect(recipes.Options{}), "lock")
	for range 2 { // a missing path, and an existing one
		hold, err := mu.TryLock(s.Ctx)
		require.NoError(t, err)
		require.NoError(t, hold.Check(s.Ctx))
		s.Unlock(hold)
	}
}

func TestPanicInDoLeavesNoNode(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	mu := s.Mutex(s.Connect(recipes.Options{}), "lock")
	require.PanicsWithValue(t, "panic of the test", func() {
		_ = mu.Do(s.Ctx, func(context.Context, *lock.Hold) error {
			require.Len(t, s.Nodes("lock"), 1)
			panic("panic of the test")
		})
	})
	require.Empty(t, s.Nodes("lock"))
}

func TestDoReturnsOnlyAfterItsFunctionHas(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	mu := s.Mutex(s.Connect(recipes.Options{}), "lock")
	next := s.Mutex(s.Connect(recipes.Options{}), "lock")
	returned := false // not guarded, so that the race detector checks the order
	err := mu.Do(s.Ctx, func(ctx context.Context, _ *lock.Hold) error {
		require.NoError(t, s.ZK.Delete(s.Path("lock")+"/"+s.Nodes("lock")[0], -1))
		recipetest.Await(s, ctx.Done())
		// The lock is lost, and another client holds it, while this work still runs.
		s.Unlock(s.Lock(next))
		returned = true
		return context.Cause(ctx)
	})
	require.True(t, returned)
	require.ErrorIs(t, err, recipes.ErrLost)
	require.ErrorIs(t, err, recipes.ErrDeleted)
}

func TestDoReportsALossThatItsFunctionIgnored(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	mu := s.Mutex(s.Connect(recipes.Options{}), "lock")
	err := mu.Do(s.Ctx, func(ctx context.Context, _ *lock.Hold) error {
		require.NoError(t, s.ZK.Delete(s.Path("lock")+"/"+s.Nodes("lock")[0], -1))
		recipetest.Await(s, ctx.Done())
		return nil
	})
	require.ErrorIs(t, err, recipes.ErrLost)
	require.ErrorIs(t, err, recipes.ErrDeleted)
}

func TestCancelledDoReleasesTheLock(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	mu := s.Mutex(s.Connect(recipes.Options{}), "lock")
	ctx, cancel := context.WithCancel(s.Ctx)
	err := mu.Do(ctx, func(ctx context.Context, _ *lock.Hold) error {
		cancel()
		recipetest.Await(s, ctx.Done())
		return ctx.Err()
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, recipes.ErrLost)
	require.Empty(t, s.Nodes("lock"))
}
