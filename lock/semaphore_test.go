// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// semaphore returns the semaphore at /locks/permits for a new client, and the client.
func (s servers) semaphore(limit int) (*lock.Semaphore, *recipes.Client) {
	s.Helper()
	client, err := recipes.Connect(s.Context(), s.Addrs(), &recipes.Options{
		SessionTimeout: timeout, Dial: s.Dial, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(s, err)
	s.Cleanup(func() { client.Close() })
	sem, err := lock.NewSemaphore(client, "/locks/permits", limit, nil)
	require.NoError(s, err)
	return sem, client
}

func (s servers) acquire(sem *lock.Semaphore, weight int) *lock.Permits {
	s.Helper()
	hold, err := sem.Acquire(s.Context(), weight)
	require.NoError(s, err)
	return hold
}

// acquireLater acquires in the background, and returns when the call waits or has its permits.
func (s servers) acquireLater(sem *lock.Semaphore, weight int) <-chan *lock.Permits {
	got := make(chan *lock.Permits, 1)
	go func() {
		hold, err := sem.Acquire(s.Context(), weight)
		if err != nil && s.Context().Err() == nil {
			s.Errorf("acquire %d: %v", weight, err)
		}
		got <- hold
	}()
	s.settle()
	return got
}

// settle waits until no client does anything but heartbeats.
func (s servers) settle() {
	time.Sleep(timeout / 64)
	synctest.Wait()
}

func TestPermitsHeldAreNeverAboveTheLimit(t *testing.T) {
	bubble(t, func(s servers) {
		const limit = 3
		var held, most atomic.Int64
		var all sync.WaitGroup
		for range 3 {
			sem, _ := s.semaphore(limit)
			for weight := 1; weight <= limit; weight++ {
				for range 3 {
					all.Go(func() {
						err := sem.Do(s.Context(), weight, func(context.Context, *lock.Permits) error {
							now := held.Add(int64(weight))
							most.Store(max(most.Load(), now))
							time.Sleep(time.Millisecond)
							held.Add(-int64(weight))
							if now > limit {
								return fmt.Errorf("%d permits are held", now)
							}
							return nil
						})
						if err != nil {
							s.Error(err)
						}
					})
				}
			}
		}
		all.Wait()
		require.EqualValues(s, limit, most.Load(), "all permits are used")
	})
}

func TestAcquireOfManyPermitsIsNotOvertakenByAcquiresOfFew(t *testing.T) {
	bubble(t, func(s servers) {
		a, _ := s.semaphore(3)
		b, _ := s.semaphore(3)
		c, _ := s.semaphore(3)
		first := s.acquire(a, 2)
		second := s.acquire(a, 1)
		require.True(s, first.Shared())
		many, few := s.acquireLater(b, 3), s.acquireLater(c, 1)
		require.NoError(s, second.Release(s.Context()))
		s.settle()
		require.Empty(s, many)
		require.Empty(s, few, "a permit is free, and the waiter ahead needs it")
		require.NoError(s, first.Release(s.Context()))
		hold := <-many
		s.settle()
		require.Empty(s, few)
		require.NoError(s, hold.Release(s.Context()))
		require.NoError(s, (<-few).Release(s.Context()))
	})
}

// Where permits are taken one by one, two calls that need both hold one each.
func TestTwoAcquiresOfAllPermitsDoNotWaitForEachOther(t *testing.T) {
	bubble(t, func(s servers) {
		var all sync.WaitGroup
		for range 2 {
			sem, _ := s.semaphore(2)
			all.Go(func() {
				for range 10 {
					if err := sem.Do(s.Context(), 2, func(context.Context, *lock.Permits) error { return nil }); err != nil {
						s.Error(err)
					}
				}
			})
		}
		all.Wait()
	})
}

// Another contender than the one directly ahead makes room by its release.
func TestReleaseOfAnyHolderLetsFirstWaiterIn(t *testing.T) {
	bubble(t, func(s servers) {
		var holds []*lock.Permits
		for range 3 {
			sem, _ := s.semaphore(3)
			holds = append(holds, s.acquire(sem, 1))
		}
		a, _ := s.semaphore(3)
		b, _ := s.semaphore(3)
		waiter, behind := s.acquireLater(a, 1), s.acquireLater(b, 1)
		require.NoError(s, holds[0].Release(s.Context()))
		hold := <-waiter
		s.settle()
		require.Empty(s, behind)
		require.NoError(s, holds[1].Release(s.Context()))
		require.NoError(s, (<-behind).Release(s.Context()), "the first waiter has its permits and still holds them")
		require.NoError(s, errors.Join(hold.Release(s.Context()), holds[2].Release(s.Context())))
	})
}

func TestCancelledFirstWaiterLetsTheNextOneIn(t *testing.T) {
	bubble(t, func(s servers) {
		a, _ := s.semaphore(2)
		b, _ := s.semaphore(2)
		hold := s.acquire(a, 1)
		ctx, cancel := context.WithCancel(s.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := a.Acquire(ctx, 2)
			failed <- err
		}()
		s.settle()
		behind := s.acquireLater(b, 1)
		require.Empty(s, behind)
		cancel()
		require.ErrorIs(s, <-failed, context.Canceled)
		require.NoError(s, errors.Join((<-behind).Release(s.Context()), hold.Release(s.Context())))
	})
}

func TestWeightsThatAreNotPossibleAreNamedAndCreateNothing(t *testing.T) {
	bubble(t, func(s servers) {
		sem, client := s.semaphore(2)
		for _, weight := range []int{0, -1, 3, lock.MaxPermits + 1} {
			_, err := sem.Acquire(s.Context(), weight)
			require.ErrorContains(s, err, fmt.Sprintf("weight of %d permits: must be 1 to", weight))
			_, err = sem.TryAcquire(s.Context(), weight)
			require.ErrorContains(s, err, fmt.Sprintf("weight of %d permits: must be 1 to", weight))
		}
		contenders, err := sem.Contenders(s.Context())
		require.NoError(s, err)
		require.Empty(s, contenders)
		for _, limit := range []int{-1, lock.MaxPermits + 1} {
			_, err := lock.NewSemaphore(client, "/locks/permits", limit, nil)
			require.ErrorContains(s, err, fmt.Sprintf("limit of %d permits: must be 1 to 1048576", limit))
			require.ErrorContains(s, sem.Resize(s.Context(), limit), fmt.Sprintf("limit of %d permits: must be", limit))
		}
		require.ErrorContains(s, sem.Resize(s.Context(), 0), "limit of 0 permits: must be")
	})
}

func TestProcessesWithOtherLimitsGetAnErrorThatShowsBoth(t *testing.T) {
	bubble(t, func(s servers) {
		a, _ := s.semaphore(2)
		b, _ := s.semaphore(5)
		hold := s.acquire(a, 1)
		for _, acquire := range []func(context.Context, int) (*lock.Permits, error){b.Acquire, b.TryAcquire} {
			_, err := acquire(s.Context(), 1)
			var mismatch *lock.LimitError
			require.ErrorAs(s, err, &mismatch)
			require.Equal(s, lock.LimitError{Path: "/locks/permits-limit", Limit: 5, Stored: 2}, *mismatch)
			require.ErrorContains(s, err, "limit is 5 in this process and 2 in /locks/permits-limit")
		}
		limit, err := b.Limit(s.Context())
		require.NoError(s, err)
		require.Equal(s, 2, limit)
		require.NoError(s, hold.Release(s.Context()))
	})
}

func TestTryAcquireFailsWhereAWaiterNeedsTheFreePermit(t *testing.T) {
	bubble(t, func(s servers) {
		a, _ := s.semaphore(2)
		b, _ := s.semaphore(2)
		hold := s.acquire(a, 1)
		other, err := b.TryAcquire(s.Context(), 1)
		require.NoError(s, err)
		_, err = b.TryAcquire(s.Context(), 1)
		require.ErrorIs(s, err, lock.ErrLocked)
		require.NoError(s, other.Release(s.Context()))
		waiter := s.acquireLater(a, 2)
		_, err = b.TryAcquire(s.Context(), 1)
		require.ErrorIs(s, err, lock.ErrLocked)
		require.NoError(s, hold.Release(s.Context()))
		require.NoError(s, (<-waiter).Release(s.Context()))
	})
}

func TestHigherLimitLetsWaitersIn(t *testing.T) {
	bubble(t, func(s servers) {
		a, _ := s.semaphore(1)
		b, _ := s.semaphore(1)
		c, _ := s.semaphore(1)
		hold := s.acquire(a, 1)
		second, third := s.acquireLater(b, 1), s.acquireLater(c, 1)
		require.NoError(s, a.Resize(s.Context(), 3))
		require.NoError(s, errors.Join((<-second).Release(s.Context()), (<-third).Release(s.Context()), hold.Release(s.Context())))
		require.NoError(s, s.acquire(c, 3).Release(s.Context()), "it follows the new limit")
	})
}

func TestLimitIsNotLoweredBelowWhatIsHeld(t *testing.T) {
	bubble(t, func(s servers) {
		a, _ := s.semaphore(4)
		b, _ := s.semaphore(4)
		hold := s.acquire(a, 3)
		err := b.Resize(s.Context(), 2)
		require.ErrorContains(s, err, "limit of 2 permits is below the 3 that are held or waited for")
		held := (*lock.HeldError)(nil)
		require.ErrorAs(s, err, &held)
		require.Equal(s, 3, held.Taken)
		require.Equal(s, hold.Token(), held.Holder.Token)
		require.ErrorIs(s, err, lock.ErrLocked)
		limit, err := b.Limit(s.Context())
		require.NoError(s, err)
		require.Equal(s, 4, limit)

		require.NoError(s, b.Resize(s.Context(), 3))
		waiter := s.acquireLater(b, 1)
		require.Empty(s, waiter)
		require.NoError(s, hold.Release(s.Context()))
		require.NoError(s, (<-waiter).Release(s.Context()))
		_, err = a.Acquire(s.Context(), 4)
		require.ErrorContains(s, err, "weight of 4 permits: must be 1 to 3")
	})
}

func TestMutexOnThePathCountsAsAllPermits(t *testing.T) {
	bubble(t, func(s servers) {
		sem, client := s.semaphore(2)
		mu, err := lock.New(client, "/locks/permits", nil)
		require.NoError(s, err)
		held, err := mu.Lock(s.Context())
		require.NoError(s, err)
		waiter := s.acquireLater(sem, 1)
		require.Empty(s, waiter)
		require.NoError(s, held.Unlock(s.Context()))
		hold := <-waiter
		_, err = mu.TryLock(s.Context())
		require.ErrorIs(s, err, lock.ErrLocked)
		contenders, err := sem.Contenders(s.Context())
		require.NoError(s, err)
		require.Equal(s, 1, contenders[0].Permits)
		require.True(s, contenders[0].Held)
		require.NoError(s, hold.Release(s.Context()))
	})
}
