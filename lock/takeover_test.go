// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// delay is the lock-delay of these tests, longer than a session timeout.
const delay = 3 * timeout / 2

// A fenced is a lock with a lock-delay and a fence function, and its client.
type fenced struct {
	*lock.Mutex
	client *recipes.Client
	link   *zktest.Link

	mu    sync.Mutex // guards what follows
	calls []string   // owners of the former holders
	fail  func(ctx context.Context) error
}

// fenced returns the lock /locks/a for a new client.
func (s servers) fenced(owner string) *fenced {
	s.Helper()
	f := &fenced{}
	f.client, f.link = s.client()
	var err error
	f.Mutex, err = lock.New(f.client, "/locks/a", &lock.Options{Owner: owner, LockDelay: delay, Fence: f.fence})
	require.NoError(s, err)
	return f
}

func (f *fenced) fence(ctx context.Context, former recipes.FormerHolder) error {
	f.mu.Lock()
	f.calls = append(f.calls, former.Owner)
	fail := f.fail
	f.mu.Unlock()
	if fail != nil {
		return fail(ctx)
	}
	return nil
}

// fences returns the owners for which the fence function was called.
func (f *fenced) fences() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

func (f *fenced) setFail(fail func(context.Context) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

// crash ends the client of a holder that does not release.
func (f *fenced) crash(s servers) *lock.Hold {
	s.Helper()
	hold := s.lock(f.Mutex)
	f.client.Close()
	return hold
}

func TestNextHolderWaitsAndFencesAfterHolderThatDidNotRelease(t *testing.T) {
	bubble(t, func(s servers) {
		var former recipes.FormerHolder
		client, _ := s.client()
		b, err := lock.New(client, "/locks/a", &lock.Options{LockDelay: delay, Fence: func(_ context.Context, f recipes.FormerHolder) error {
			former = f
			return nil
		}})
		require.NoError(s, err)
		hold := s.fenced("a").crash(s)
		began := time.Now()
		next := s.lock(b)
		require.GreaterOrEqual(s, time.Since(began), delay)
		require.Less(s, time.Since(began), delay+timeout/8)
		require.Equal(s, hold.Token(), former.Token)
		require.Equal(s, "a", former.Owner)
		require.NotEmpty(s, former.Host)
		require.NotZero(s, former.PID)
		require.False(s, former.Since.IsZero())
		require.Greater(s, next.Token(), hold.Token())
		require.NoError(s, next.Check(s.Context()))
		require.NoError(s, next.Unlock(s.Context()))
	})
}

func TestHolderThatReleasedIsNeitherWaitedOutNorFenced(t *testing.T) {
	bubble(t, func(s servers) {
		a, b := s.fenced("a"), s.fenced("b")
		began := time.Now()
		for range 3 {
			hold := s.lock(a.Mutex)
			granted := make(chan *lock.Hold)
			go func() {
				hold, err := b.Lock(s.Context())
				if err != nil {
					s.Error(err)
				}
				granted <- hold
			}()
			s.settle()
			require.NoError(s, hold.Unlock(s.Context()))
			require.NoError(s, (<-granted).Unlock(s.Context()))
			tried, err := a.TryLock(s.Context())
			require.NoError(s, err)
			require.NoError(s, tried.Unlock(s.Context()))
		}
		require.Less(s, time.Since(began), delay)
		require.Empty(s, a.fences())
		require.Empty(s, b.fences())
	})
}

func TestLockDelayIsCountedOnAcrossCallsThatTimeOut(t *testing.T) {
	bubble(t, func(s servers) {
		hold := s.fenced("a").crash(s)
		b := s.fenced("b")
		began := time.Now()
		for i := 0; ; i++ {
			ctx, cancel := context.WithTimeout(s.Context(), delay/3+time.Second/8)
			hold, err := b.Lock(ctx)
			cancel()
			if i == 2 {
				require.NoError(s, err)
				require.NoError(s, hold.Unlock(s.Context()))
				break
			}
			require.ErrorIs(s, err, context.DeadlineExceeded)
			require.NotErrorIs(s, err, lock.ErrLocked, "the lock is held by no client")
			require.ErrorContains(s, err, "wait for the lock-delay /locks/a: holder \"a\" with token ")
			_, err = b.Holder(s.Context())
			require.ErrorIs(s, err, lock.ErrNoHolder, "a call that failed leaves no node")
		}
		require.Less(s, time.Since(began), delay+timeout/4)
		require.Equal(s, []string{"a"}, b.fences())
		require.NotZero(s, hold.Token())
	})
}

func TestTryLockWaitsForTheLockDelay(t *testing.T) {
	bubble(t, func(s servers) {
		s.fenced("a").crash(s)
		b := s.fenced("b")
		began := time.Now()
		hold, err := b.TryLock(s.Context())
		require.NoError(s, err)
		require.GreaterOrEqual(s, time.Since(began), delay)
		require.Equal(s, []string{"a"}, b.fences())
		require.NoError(s, hold.Unlock(s.Context()))
	})
}

func TestLockThatCannotFenceLeavesTheFormerHolderToTheNextCall(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.fenced("a")
		hold := a.crash(s)
		b, c := s.fenced("b"), s.fenced("c")
		broken := errors.New("no route to the storage")
		b.setFail(func(context.Context) error { return broken })
		_, err := b.Lock(s.Context())
		require.ErrorIs(s, err, broken)
		require.ErrorContains(s, err, "lock: fence /locks/a: holder \"a\" with token "+hold.Token().String()+" did not release: no route to the storage")
		var unreleased *recipes.UnreleasedError
		require.ErrorAs(s, err, &unreleased)
		require.Equal(s, hold.Token(), unreleased.Former.Token)
		require.Zero(s, b.client.OutstandingNodes())

		next := s.lock(c.Mutex)
		require.Equal(s, []string{"a"}, c.fences())
		require.NoError(s, next.Unlock(s.Context()))
		b.setFail(nil)
		require.NoError(s, s.lock(b.Mutex).Unlock(s.Context()))
		require.Equal(s, []string{"a"}, b.fences(), "c has released")
	})
}

func TestErrorOfFenceFunctionIsReturnedWhateverItWraps(t *testing.T) {
	bubble(t, func(s servers) {
		s.fenced("a").crash(s)
		b := s.fenced("b")
		for i, cause := range []error{
			&recipes.Error{Op: "hold", Path: "/locks/other", Err: recipes.ErrDeadline}, recipes.ErrDeleted, context.DeadlineExceeded,
			&recipes.BusyError{Path: "/locks/other"},
		} {
			b.setFail(func(context.Context) error { return cause })
			_, err := b.TryLock(s.Context())
			require.ErrorIs(s, err, cause)
			require.ErrorContains(s, err, "lock: fence /locks/a: holder \"a\" with token ")
			require.NotErrorIs(s, err, lock.ErrLocked)
			require.Len(s, b.fences(), i+1)
		}
	})
}

func TestPanicOfFenceFunctionPassesThroughLockAndLeavesNoNode(t *testing.T) {
	bubble(t, func(s servers) {
		s.fenced("a").crash(s)
		b, c := s.fenced("b"), s.fenced("c")
		b.setFail(func(context.Context) error { panic("oh") })
		require.PanicsWithValue(s, "oh", func() { _, _ = b.Lock(s.Context()) })
		require.Zero(s, b.client.OutstandingNodes())
		require.NoError(s, s.lock(c.Mutex).Unlock(s.Context()))
		require.Equal(s, []string{"a"}, c.fences())
	})
}

func TestHoldThatWasLostCountsAsNotReleasedEvenIfItIsUnlocked(t *testing.T) {
	bubble(t, func(s servers) {
		a, b := s.fenced("a"), s.fenced("b")
		hold := s.lock(a.Mutex)
		require.NoError(s, s.Expire(s.Context(), a.client.SessionID()))
		<-hold.Done()
		require.ErrorIs(s, hold.Unlock(s.Context()), recipes.ErrLost)
		require.NoError(s, s.lock(b.Mutex).Unlock(s.Context()))
		require.Equal(s, []string{"a"}, b.fences())
	})
}

func TestClaimThatIsLostWhileItFencesIsNotGranted(t *testing.T) {
	bubble(t, func(s servers) {
		s.fenced("a").crash(s)
		b := s.fenced("b")
		var cause error
		b.setFail(func(ctx context.Context) error {
			b.setFail(nil)
			require.NoError(s, s.Expire(s.Context(), b.client.SessionID()))
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil // it does not notice
		})
		began := time.Now()
		hold := s.lock(b.Mutex)
		require.ErrorIs(s, cause, recipes.ErrLost)
		require.NoError(s, hold.Check(s.Context()))
		require.Equal(s, []string{"a", "a"}, b.fences(), "the former holder is the same: b took nothing over")
		require.Less(s, time.Since(began), 2*delay, "the lock-delay is counted on")
		require.NoError(s, hold.Unlock(s.Context()))
	})
}

func TestFenceFunctionThatEndsWithItsLostClaimIsCalledAgain(t *testing.T) {
	bubble(t, func(s servers) {
		s.fenced("a").crash(s)
		b := s.fenced("b")
		b.setFail(func(ctx context.Context) error {
			b.setFail(nil)
			nodes, err := s.Children("/locks/a")
			require.NoError(s, err)
			require.NoError(s, s.Ensemble.Delete("/locks/a/"+nodes[0]))
			<-ctx.Done()
			return ctx.Err()
		})
		hold := s.lock(b.Mutex)
		require.NoError(s, hold.Check(s.Context()))
		require.Equal(s, []string{"a", "a"}, b.fences())
		require.NoError(s, hold.Unlock(s.Context()))
	})
}

func TestReleaseWhoseAnswerIsLostIsARelease(t *testing.T) {
	bubble(t, func(s servers) {
		a, b := s.fenced("a"), s.fenced("b")
		hold := s.lock(a.Mutex)
		lost := a.link.Intercept(zktest.Rule{
			Op: "multi", Times: 1, Lose: zktest.ToClient, When: func(r zktest.Request) bool { return r.Ops[0].Op == "delete" },
		})
		require.NoError(s, hold.Unlock(s.Context()))
		require.Equal(s, 1, lost.Fired())
		began := time.Now()
		require.NoError(s, s.lock(b.Mutex).Unlock(s.Context()))
		require.Less(s, time.Since(began), delay)
		require.Empty(s, b.fences())
	})
}

func TestHolderWhoseReleaseIsNotConfirmedIsFenced(t *testing.T) {
	bubble(t, func(s servers) {
		a, b := s.fenced("a"), s.fenced("b")
		hold := s.lock(a.Mutex)
		a.link.Refuse(true)
		a.link.Reset()
		s.settle() // a request that is under way can still be carried out
		require.ErrorIs(s, hold.Unlock(s.Context()), recipes.ErrUncertain)
		a.link.Refuse(false)
		require.NoError(s, s.lock(b.Mutex).Unlock(s.Context()))
		require.Equal(s, []string{"a"}, b.fences())
	})
}

func TestUserWithoutTheOptionsNeitherWaitsNorLeavesABreadcrumb(t *testing.T) {
	bubble(t, func(s servers) {
		s.fenced("a").crash(s)
		plain, _ := s.client()
		began := time.Now()
		s.lock(s.mutexAt(plain, "/locks/a", false))
		require.Less(s, time.Since(began), delay)
		plain.Close()
		b := s.fenced("b")
		require.NoError(s, s.lock(b.Mutex).Unlock(s.Context()))
		require.Equal(s, []string{"a"}, b.fences(), "not the other one, whose crash goes unnoticed")
	})
}

func TestLastUnlockOfReentrantLockClearsTheBreadcrumb(t *testing.T) {
	bubble(t, func(s servers) {
		client, _ := s.client()
		mu, err := lock.New(client, "/locks/a", &lock.Options{Reentrant: true, LockDelay: delay})
		require.NoError(s, err)
		outer := s.lock(mu)
		ctx, cancel := outer.Context(s.Context())
		defer cancel()
		inner, err := mu.Lock(ctx)
		require.NoError(s, err)
		require.NoError(s, outer.Unlock(s.Context()))
		require.NoError(s, inner.Unlock(s.Context()))
		b := s.fenced("b")
		require.NoError(s, s.lock(b.Mutex).Unlock(s.Context()))
		require.Empty(s, b.fences())
	})
}

func TestLockDelayAndFenceAreRefusedWhereSeveralLocksAreTaken(t *testing.T) {
	_, err := lock.New(&recipes.Client{}, "/locks/a", &lock.Options{LockDelay: -time.Second})
	require.EqualError(t, err, "new lock: new queue: lock-delay -1s is negative")
	const why = "a lock-delay and a fence function are possible for a single lock only"
	bubble(t, func(s servers) {
		a, b := s.fenced("a"), s.fenced("b")
		_, err := lock.All(a.Mutex, s.mutexAt(a.client, "/locks/b", false))
		require.EqualError(s, err, "lock all /locks/a: "+why)
		_, err = lock.All(b.Mutex)
		require.Error(s, err)
	})
}
