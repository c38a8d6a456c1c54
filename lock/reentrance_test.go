// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// reentrant returns a client and its re-entrant lock at /locks/a.
func (s servers) reentrant() (*recipes.Client, *lock.Mutex) {
	s.Helper()
	client, _ := s.client()
	return client, s.mutexAt(client, "/locks/a", true)
}

func TestNestedLockJoinsHoldAndLastUnlockReleases(t *testing.T) {
	bubble(t, func(s servers) {
		client, mu := s.reentrant()
		outer := s.lock(mu)
		ctx, cancel := outer.Context(s.Context())
		defer cancel()
		same := s.mutexAt(client, "/locks/a", true) // another value of the same lock
		inner, err := same.Lock(ctx)
		require.NoError(s, err)
		tried, err := mu.TryLock(ctx)
		require.NoError(s, err)
		require.Equal(s, outer.Token(), inner.Token())
		require.Equal(s, outer.Path(), tried.Path())

		for _, hold := range []*lock.Hold{outer, inner, inner} { // the second call of one counts once
			require.NoError(s, hold.Unlock(s.Context()))
			require.NoError(s, ctx.Err())
			require.NoError(s, tried.Check(s.Context()))
		}
		require.NoError(s, tried.Unlock(s.Context()))
		require.ErrorIs(s, outer.Err(), recipes.ErrReleased)
		_, err = mu.Holder(s.Context())
		require.ErrorIs(s, err, lock.ErrNoHolder)
		_, err = mu.Lock(ctx)
		require.ErrorIs(s, err, recipes.ErrReleased, "the context belongs to a hold that has ended")
	})
}

func TestLockThatDoesNotNestIsNormalLock(t *testing.T) {
	bubble(t, func(s servers) {
		client, mu := s.reentrant()
		other, _ := s.client()
		hold := s.lock(mu)
		ctx, cancel := hold.Context(s.Context())
		defer cancel()
		for name, held := range map[string]*lock.Mutex{
			"of another client":   s.mutexAt(other, "/locks/a", true),
			"without the option":  s.mutexAt(client, "/locks/a", false),
			"outside the context": mu,
		} {
			under := ctx
			if held == mu {
				under = s.Context()
			}
			_, err := held.TryLock(under)
			require.ErrorIs(s, err, lock.ErrLocked, name)
		}
		inner, err := s.mutexAt(client, "/locks/b", true).Lock(ctx)
		require.NoError(s, err)
		require.NotEqual(s, hold.Path(), inner.Path())
		require.NoError(s, inner.Unlock(s.Context()))
		require.NoError(s, hold.Unlock(s.Context()))

		plain := s.lock(s.mutexAt(client, "/locks/a", false))
		ctx, cancel = plain.Context(s.Context())
		defer cancel()
		_, err = mu.TryLock(ctx)
		require.ErrorIs(s, err, lock.ErrLocked, "the outer lock is not re-entrant")
		require.NoError(s, plain.Unlock(s.Context()))
	})
}

func TestNestedLockAfterLossReturnsItsCause(t *testing.T) {
	bubble(t, func(s servers) {
		_, mu := s.reentrant()
		outer := s.lock(mu)
		ctx, cancel := outer.Context(s.Context())
		defer cancel()
		inner, err := mu.Lock(ctx)
		require.NoError(s, err)
		require.NoError(s, s.Delete(outer.Path()))
		<-inner.Done()
		for _, under := range []context.Context{ctx, context.WithoutCancel(ctx)} {
			_, err = mu.Lock(under)
			require.ErrorIs(s, err, recipes.ErrLost)
			require.ErrorIs(s, err, recipes.ErrDeleted)
		}
		require.ErrorIs(s, inner.Unlock(s.Context()), recipes.ErrDeleted)
		require.ErrorIs(s, outer.Unlock(s.Context()), recipes.ErrDeleted)
	})
}

func TestNestedLockUnderCancelledContextFails(t *testing.T) {
	bubble(t, func(s servers) {
		_, mu := s.reentrant()
		outer := s.lock(mu)
		parent, stop := context.WithCancelCause(s.Context())
		ctx, cancel := outer.Context(parent)
		defer cancel()
		why := errors.New("shutting down")
		stop(why)
		_, err := mu.Lock(ctx)
		require.ErrorIs(s, err, context.Canceled)
		require.ErrorIs(s, err, why)
		require.NoError(s, outer.Unlock(s.Context()))
		require.ErrorIs(s, outer.Err(), recipes.ErrReleased, "the failed call holds nothing")
	})
}

// The race detector sees a count that is not guarded.
func TestNestedDoFromSeveralGoroutinesReleasesOnce(t *testing.T) {
	bubble(t, func(s servers) {
		_, mu := s.reentrant()
		err := mu.Do(s.Context(), func(ctx context.Context, hold *lock.Hold) error {
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					err := mu.Do(ctx, func(_ context.Context, nested *lock.Hold) error {
						if nested.Token() != hold.Token() {
							return errors.New("the token has changed")
						}
						return nil
					})
					if err != nil {
						s.Errorf("nested: %v", err)
					}
				})
			}
			all.Wait()
			return hold.Err()
		})
		require.NoError(s, err)
		_, err = mu.Holder(s.Context())
		require.ErrorIs(s, err, lock.ErrNoHolder)
	})
}

func TestUnlockWithNilContextReleasesNothing(t *testing.T) {
	bubble(t, func(s servers) {
		_, mu := s.reentrant()
		hold := s.lock(mu)
		require.ErrorContains(s, hold.Unlock(nil), "context is nil") //nolint:staticcheck // the test's subject
		require.NoError(s, hold.Err())
		require.NoError(s, hold.Unlock(s.Context()))
	})
}

func TestContextOfAllEndsWithItsUnlockWhileOuterHoldsKeepTheLocks(t *testing.T) {
	bubble(t, func(s servers) {
		client, _ := s.client()
		all, err := lock.All(s.mutexAt(client, "/locks/a", true), s.mutexAt(client, "/locks/b", true))
		require.NoError(s, err)
		outer, err := all.Lock(s.Context())
		require.NoError(s, err)
		within, cancel := outer.Context(s.Context())
		defer cancel()
		inner, err := all.Lock(within)
		require.NoError(s, err)
		ctx, cancel := inner.Context(s.Context())
		defer cancel()
		require.NoError(s, inner.Unlock(s.Context()))
		<-ctx.Done()
		require.ErrorIs(s, context.Cause(ctx), recipes.ErrReleased)
		late, cancel := inner.Context(s.Context())
		defer cancel()
		require.ErrorIs(s, context.Cause(late), recipes.ErrReleased)
		require.NoError(s, within.Err())
		require.NoError(s, outer.Unlock(s.Context()))
	})
}
