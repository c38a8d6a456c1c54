// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestLockExcludesLock(t *testing.T) {
	s := onThree(t)
	s.contend("lock", 4, 4, 20)
}

// contend makes contenders acquire and release the lock of that name. The lock alone guards plain variables: on a double grant
// the race detector reports a race, and counts are lost.
func (s *env) contend(name string, clients, goroutines, cycles int) {
	s.t.Helper()
	var (
		counter int
		newest  fencing.Token
		stale   []error
	)
	errs := make(chan error, clients*goroutines)
	for range clients {
		mu := s.mutex(s.connect(recipes.Options{}), name)
		for range goroutines {
			go func() {
				errs <- func() error {
					for range cycles {
						hold, err := mu.Lock(s.ctx)
						if err != nil {
							return err
						}
						counter++
						if hold.Token() <= newest {
							stale = append(stale, fmt.Errorf("token %d after %d", hold.Token(), newest))
						}
						newest = hold.Token()
						if err := hold.Unlock(s.ctx); err != nil {
							return err
						}
					}
					return nil
				}()
			}()
		}
	}
	for range clients * goroutines {
		require.NoError(s.t, await(s, errs))
	}
	require.Equal(s.t, clients*goroutines*cycles, counter)
	require.Empty(s.t, stale)
}

func TestWaitersAreServedInOrder(t *testing.T) {
	s := onThree(t)
	s.requireServedInOrder("lock")
}

// requireServedInOrder makes contenders of several clients join the queue of that name one after the other, and requires that
// they are granted the lock in that order.
func (s *env) requireServedInOrder(name string) {
	s.t.Helper()
	var mutexes []*lock.Mutex
	for range 3 {
		mu := s.mutex(s.connect(recipes.Options{}), name)
		// Near the end of the counter, the first join at a path can take two attempts.
		s.unlock(s.lock(mu))
		mutexes = append(mutexes, mu)
	}
	hold := s.lock(mutexes[0])
	const waiters = 12
	var mu sync.Mutex // guards served
	var served, want []int
	errs := make(chan error, waiters)
	for i := range waiters {
		waiter := s.locking(s.ctx, mutexes[i%len(mutexes)])
		s.waiting(name, i+2)
		want = append(want, i)
		go func() {
			<-waiter.ended
			if waiter.err != nil {
				errs <- waiter.err
				return
			}
			mu.Lock()
			served = append(served, i)
			mu.Unlock()
			errs <- waiter.hold.Unlock(s.ctx)
		}()
	}
	s.unlock(hold)
	for range waiters {
		require.NoError(s.t, await(s, errs))
	}
	require.Equal(s.t, want, served)
}

func TestCancelledWaiterLeavesNoNode(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	mu := s.mutex(s.connect(recipes.Options{}), "lock")
	hold := s.lock(mu)
	ctx, cancel := context.WithCancelCause(s.ctx)
	first := s.locking(ctx, mu)
	s.waiting("lock", 2)
	second := s.locking(s.ctx, mu)
	s.waiting("lock", 3)

	cause := errors.New("configuration has changed")
	cancel(cause)
	_, err := first.result()
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, cause)
	require.Len(t, s.nodes("lock"), 2, "gone when Lock has returned")

	require.False(t, second.over())
	s.unlock(hold)
	s.unlock(second.granted())
}

func TestTimedOutLockLeavesNoNode(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	mu := s.mutex(s.connect(recipes.Options{}), "lock")
	hold := s.lock(s.mutex(s.connect(recipes.Options{}), "lock"))
	ctx, cancel := context.WithTimeout(s.ctx, 200*time.Millisecond)
	defer cancel()
	_, err := mu.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Len(t, s.nodes("lock"), 1, "gone when Lock has returned")

	cancel()
	_, err = mu.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Len(t, s.nodes("lock"), 1)
	s.unlock(hold)
}

// The cancellation can come before, during or after the join.
func TestLockCancelledAtAnyMomentLeavesNoNode(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	client := s.connect(recipes.Options{})
	for _, name := range []string{"free", "held"} {
		mu := s.mutex(client, name)
		var hold *lock.Hold
		if name == "held" {
			hold = s.lock(mu)
		}
		for i := range 40 {
			ctx, cancel := context.WithTimeout(s.ctx, time.Duration(i)*100*time.Microsecond)
			got, err := mu.Lock(ctx)
			cancel()
			if err == nil {
				s.unlock(got)
				continue
			}
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		s.eventually("no node of a cancelled Lock", func() bool { return len(s.nodes(name)) == 0 || hold != nil && len(s.nodes(name)) == 1 })
		if hold != nil {
			s.unlock(hold)
		}
	}
}

func TestUnlockAfterCancelStillUnlocks(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	mu := s.mutex(s.connect(recipes.Options{}), "lock")
	ctx, cancel := context.WithCancel(s.ctx)
	hold, err := mu.Lock(ctx)
	require.NoError(t, err)
	cancel()
	require.NoError(t, hold.Err(), "ctx bounds the call, not the hold")
	require.NoError(t, hold.Unlock(ctx))
	require.ErrorIs(t, hold.Err(), recipes.ErrReleased)
	require.Empty(t, s.nodes("lock"))
	require.NoError(t, hold.Unlock(ctx), "the first result again")
}

func TestTryLockOnAFreeLockTakesIt(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	mu := s.mutex(s.connect(recipes.Options{}), "lock")
	for range 2 { // a missing path, and an existing one
		hold, err := mu.TryLock(s.ctx)
		require.NoError(t, err)
		require.NoError(t, hold.Check(s.ctx))
		s.unlock(hold)
	}
}

func TestPanicInDoLeavesNoNode(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	mu := s.mutex(s.connect(recipes.Options{}), "lock")
	require.PanicsWithValue(t, "panic of the test", func() {
		_ = mu.Do(s.ctx, func(context.Context, *lock.Hold) error {
			require.Len(t, s.nodes("lock"), 1)
			panic("panic of the test")
		})
	})
	require.Empty(t, s.nodes("lock"))
}

func TestDoReturnsOnlyAfterItsFunctionHas(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	mu := s.mutex(s.connect(recipes.Options{}), "lock")
	next := s.mutex(s.connect(recipes.Options{}), "lock")
	returned := false // not guarded, so that the race detector checks the order
	err := mu.Do(s.ctx, func(ctx context.Context, _ *lock.Hold) error {
		require.NoError(t, s.zk.Delete(s.path("lock")+"/"+s.nodes("lock")[0], -1))
		await(s, ctx.Done())
		// The lock is lost, and another client holds it, while this work still runs.
		s.unlock(s.lock(next))
		returned = true
		return context.Cause(ctx)
	})
	require.True(t, returned)
	require.ErrorIs(t, err, recipes.ErrLost)
	require.ErrorIs(t, err, recipes.ErrDeleted)
}

func TestDoReportsALossThatItsFunctionIgnored(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	mu := s.mutex(s.connect(recipes.Options{}), "lock")
	err := mu.Do(s.ctx, func(ctx context.Context, _ *lock.Hold) error {
		require.NoError(t, s.zk.Delete(s.path("lock")+"/"+s.nodes("lock")[0], -1))
		await(s, ctx.Done())
		return nil
	})
	require.ErrorIs(t, err, recipes.ErrLost)
	require.ErrorIs(t, err, recipes.ErrDeleted)
}

func TestCancelledDoReleasesTheLock(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	mu := s.mutex(s.connect(recipes.Options{}), "lock")
	ctx, cancel := context.WithCancel(s.ctx)
	err := mu.Do(ctx, func(ctx context.Context, _ *lock.Hold) error {
		cancel()
		await(s, ctx.Done())
		return ctx.Err()
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, recipes.ErrLost)
	require.Empty(t, s.nodes("lock"))
}
