// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/claim"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// all returns a client, its link, its locks at these paths, and the MultiMutex of them.
func (s servers) all(paths ...string) (*recipes.Client, *zktest.Link, []*lock.Mutex, *lock.MultiMutex) {
	s.Helper()
	client, link := s.client()
	mutexes := make([]*lock.Mutex, len(paths))
	for i, path := range paths {
		mutexes[i] = s.mutexAt(client, path, false)
	}
	all, err := lock.All(mutexes...)
	require.NoError(s, err)
	return client, link, mutexes, all
}

// lockBehind locks all while another client holds the lock at a path, and returns that hold and what
// becomes of the call, once the call waits.
func (s servers) lockBehind(all *lock.MultiMutex, path string) (held *lock.Hold, got <-chan *lock.MultiHold) {
	s.Helper()
	other, _ := s.client()
	held = s.lock(s.mutexAt(other, path, false))
	locked := make(chan *lock.MultiHold)
	go func() {
		hold, err := all.Lock(s.Context())
		if err != nil {
			s.Errorf("lock all: %v", err)
		}
		locked <- hold
	}()
	synctest.Wait()
	return held, locked
}

// requireNoNodes fails the test if a lock has a contender.
func (s servers) requireNoNodes(mutexes []*lock.Mutex) {
	s.Helper()
	for _, m := range mutexes {
		waiters, err := m.Waiters(s.Context())
		require.NoError(s, err)
		require.Empty(s, waiters, m.Path())
		_, err = m.Holder(s.Context())
		require.ErrorIs(s, err, lock.ErrNoHolder, m.Path())
	}
}

func TestFreeLocksAreTakenInOneTransaction(t *testing.T) {
	bubble(t, func(s servers) {
		_, _, mutexes, all := s.all("/locks/b", "/locks/a", "/locks/c")
		for range 2 { // the paths are missing first
			hold, err := all.Lock(s.Context())
			require.NoError(s, err)
			tokens := hold.Tokens()
			require.Len(s, tokens, 3)
			for _, m := range mutexes {
				require.Equal(s, hold.Claim(m).Token(), tokens[m.Path()])
				require.Equal(s, tokens["/locks/a"], tokens[m.Path()], "the zxid of the transaction")
				require.NoError(s, hold.Claim(m).Check(s.Context()))
			}
			require.Nil(s, hold.Claim(&lock.Mutex{}))
			require.NoError(s, hold.Err())
			require.NoError(s, hold.Unlock(s.Context()))
			require.NoError(s, hold.Unlock(s.Context()))
			<-hold.Done()
			require.ErrorIs(s, hold.Err(), recipes.ErrReleased)
			s.requireNoNodes(mutexes)
		}
	})
}

func TestLockOfAllWaitsInOrderAndQueuesForNoLaterLock(t *testing.T) {
	bubble(t, func(s servers) {
		_, _, mutexes, all := s.all("/locks/c", "/locks/b", "/locks/a")
		held, got := s.lockBehind(all, "/locks/b")
		_, err := mutexes[2].Holder(s.Context()) // a, which precedes b
		require.NoError(s, err)
		_, err = mutexes[0].Holder(s.Context()) // c
		require.ErrorIs(s, err, lock.ErrNoHolder)
		require.NoError(s, held.Unlock(s.Context()))
		hold := <-got
		require.NotNil(s, hold)
		require.NoError(s, hold.Unlock(s.Context()))
		s.requireNoNodes(mutexes)
	})
}

func TestLockOfAllThatTimesOutHoldsNothingAndNamesHolder(t *testing.T) {
	bubble(t, func(s servers) {
		_, link, mutexes, all := s.all("/locks/a", "/locks/b")
		other, _ := s.client()
		held := s.lock(s.mutexAt(other, "/locks/b", false))
		began := time.Now()
		ctx, cancel := context.WithTimeout(s.Context(), timeout)
		defer cancel()
		_, err := all.Lock(ctx)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		var locked *lock.HeldError
		require.ErrorAs(s, err, &locked)
		require.Equal(s, "/locks/b", locked.Path)
		require.Less(s, time.Since(began), timeout+timeout/8)
		_, err = mutexes[0].Holder(s.Context())
		require.ErrorIs(s, err, lock.ErrNoHolder)

		// While no server can be reached, it does not wait for the deletion either.
		began = time.Now()
		ctx, cancel = context.WithTimeout(s.Context(), timeout)
		defer cancel()
		time.AfterFunc(timeout*7/8, func() { link.Refuse(true); link.Reset() })
		_, err = all.Lock(ctx)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		require.Less(s, time.Since(began), timeout+timeout/8)
		require.NoError(s, held.Unlock(s.Context()))
	})
}

// The race detector sees two holders of one lock. A deadlock would end the bubble.
func TestLocksOfAllInAnyArgumentOrderNeverDeadlock(t *testing.T) {
	bubble(t, func(s servers) {
		paths := []string{"/locks/a", "/locks/b", "/locks/c"}
		count := make(map[string]*int)
		for _, path := range paths {
			count[path] = new(int)
		}
		var running sync.WaitGroup
		for i := range 6 {
			_, _, mutexes, all := s.all(paths[i%3], paths[(i+1+i/3)%3]) // each pair in both orders
			running.Go(func() {
				for range 5 {
					err := all.Do(s.Context(), func(_ context.Context, hold *lock.MultiHold) error {
						for _, m := range mutexes {
							*count[m.Path()]++
						}
						time.Sleep(time.Millisecond)
						return hold.Err()
					})
					if err != nil {
						s.Errorf("all: %v", err)
					}
				}
			})
		}
		running.Wait()
		for _, path := range paths {
			require.Equal(s, 20, *count[path], path)
		}
	})
}

func TestMergedHoldEndsWithFirstLossAndReleasesTheRest(t *testing.T) {
	bubble(t, func(s servers) {
		_, _, mutexes, all := s.all("/locks/a", "/locks/b")
		err := all.Do(s.Context(), func(ctx context.Context, hold *lock.MultiHold) error {
			require.NoError(s, s.Delete(hold.Claim(mutexes[1]).Path()))
			<-ctx.Done()
			<-hold.Done()
			require.ErrorIs(s, context.Cause(ctx), recipes.ErrDeleted)
			require.ErrorIs(s, hold.Err(), recipes.ErrDeleted)
			require.ErrorContains(s, hold.Err(), "/locks/b")
			require.NoError(s, hold.Claim(mutexes[0]).Err(), "the other lock is still held")
			return nil
		})
		require.ErrorIs(s, err, recipes.ErrDeleted)
		s.requireNoNodes(mutexes)
	})
}

// contexts returns how many contexts a claim keeps to cancel them when it ends. Nothing else shows one
// that was forgotten, until memory is short.
func contexts(hold *lock.Hold) int {
	return reflect.ValueOf(claim.Of(hold.Claim)).Elem().FieldByName("derived").Len()
}

// A re-entrant lock that the caller holds already stays held, and must not keep the merged hold's contexts.
func TestUnlockOfMergedHoldThatWasLostEndsItsContexts(t *testing.T) {
	bubble(t, func(s servers) {
		client, _ := s.client()
		a, b := s.mutexAt(client, "/locks/a", true), s.mutexAt(client, "/locks/b", true)
		both, err := lock.All(a, b)
		require.NoError(s, err)
		err = a.Do(s.Context(), func(ctx context.Context, outer *lock.Hold) error {
			merged, err := both.Lock(ctx)
			require.NoError(s, err)
			require.NoError(s, s.Delete(merged.Claim(b).Path()))
			<-merged.Done()
			kept := contexts(outer)
			require.ErrorIs(s, merged.Unlock(ctx), recipes.ErrDeleted)
			require.ErrorIs(s, merged.Err(), recipes.ErrDeleted, "the loss, and not the release")
			require.Equal(s, kept-1, contexts(outer))
			return outer.Err()
		})
		require.NoError(s, err)
		s.requireNoNodes([]*lock.Mutex{a, b})
	})
}

func TestLockOfAllBeginsAgainWhenAnEarlierLockIsLost(t *testing.T) {
	bubble(t, func(s servers) {
		_, _, mutexes, all := s.all("/locks/a", "/locks/b")
		held, got := s.lockBehind(all, "/locks/b")
		first, err := mutexes[0].Holder(s.Context())
		require.NoError(s, err)
		require.NoError(s, s.Delete("/locks/a/"+first.Name))
		time.Sleep(timeout) // in fake time: by then the client has noticed
		require.NoError(s, held.Unlock(s.Context()))
		hold := <-got
		require.NotNil(s, hold)
		require.Greater(s, hold.Tokens()["/locks/a"], first.Token)
		require.NoError(s, hold.Err())
		require.NoError(s, hold.Unlock(s.Context()))
		s.requireNoNodes(mutexes)
	})
}

func TestLockOfAllThatIsCancelledWhileItGivesBackItsLocksAfterALossReportsItsContext(t *testing.T) {
	bubble(t, func(s servers) {
		_, link, mutexes, all := s.all("/locks/a", "/locks/b", "/locks/c")
		other, _ := s.client()
		held := s.lock(s.mutexAt(other, "/locks/c", false))
		why := errors.New("no longer needed")
		ctx, cancel := context.WithCancelCause(s.Context())
		defer cancel(nil)
		ended := make(chan error)
		go func() {
			_, err := all.Lock(ctx)
			ended <- err
		}()
		synctest.Wait()
		givesBack := link.Intercept(zktest.Rule{Op: "delete", Below: "/locks/b", Before: func(zktest.Request) { cancel(why) }})
		first, err := mutexes[0].Holder(s.Context())
		require.NoError(s, err)
		require.NoError(s, s.Delete("/locks/a/"+first.Name))
		err = <-ended
		require.Equal(s, 1, givesBack.Fired())
		require.ErrorIs(s, err, context.Canceled)
		require.ErrorIs(s, err, why)
		require.NoError(s, held.Unlock(s.Context()))
		s.requireNoNodes(mutexes)
	})
}

// A contender of another library does not write the parent, so the transaction cannot notice it.
func TestContenderOfAnotherLibraryKeepsAllFromBeingTakenTogether(t *testing.T) {
	bubble(t, func(s servers) {
		_, link, mutexes, all := s.all("/locks/a", "/locks/b")
		hold, err := all.Lock(s.Context())
		require.NoError(s, err)
		require.NoError(s, hold.Unlock(s.Context()))
		foreign := "/locks/b/_c_3f2a-lock-0000000000"
		rule := link.Intercept(zktest.Rule{Op: "multi", Below: "/locks/a", Times: 1, Before: func(zktest.Request) {
			if err := s.Create(foreign, []byte("curator")); err != nil {
				s.Errorf("create: %v", err)
			}
		}})
		defer rule.Remove()
		ctx, cancel := context.WithTimeout(s.Context(), timeout)
		defer cancel()
		_, err = all.Lock(ctx)
		require.ErrorIs(s, err, lock.ErrLocked)
		require.Equal(s, 1, rule.Fired(), "the queues were empty when they were listed")
		_, err = mutexes[0].Holder(s.Context())
		require.ErrorIs(s, err, lock.ErrNoHolder)
		require.NoError(s, s.Delete(foreign))
		s.requireNoNodes(mutexes)
	})
}

// A contender of this library does write the parent, and then the transaction creates nothing.
func TestContenderThatJoinsAfterListingRefusesTransaction(t *testing.T) {
	bubble(t, func(s servers) {
		_, link, mutexes, all := s.all("/locks/a", "/locks/b")
		other, _ := s.client()
		first := s.mutexAt(other, "/locks/b", false)
		for _, m := range append(mutexes, first) { // so that all parents exist and are known
			require.NoError(s, s.lock(m).Unlock(s.Context()))
		}
		joined := make(chan *lock.Hold, 1)
		rule := link.Intercept(zktest.Rule{Op: "multi", Below: "/locks/b", Times: 1, Before: func(zktest.Request) {
			hold, err := first.Lock(s.Context())
			if err != nil {
				s.Errorf("lock: %v", err)
			}
			joined <- hold
		}})
		defer rule.Remove()
		ctx, cancel := context.WithTimeout(s.Context(), timeout)
		defer cancel()
		_, err := all.Lock(ctx)
		require.ErrorIs(s, err, lock.ErrLocked)
		hold := <-joined
		require.NoError(s, hold.Check(s.Context()))
		require.NoError(s, hold.Unlock(s.Context()))
		s.requireNoNodes(mutexes)
	})
}

func TestNestedLockUnderMergedHoldJoinsIt(t *testing.T) {
	bubble(t, func(s servers) {
		client, _ := s.client()
		a, b := s.mutexAt(client, "/locks/a", true), s.mutexAt(client, "/locks/b", true)
		both, err := lock.All(b, a)
		require.NoError(s, err)
		err = both.Do(s.Context(), func(ctx context.Context, hold *lock.MultiHold) error {
			return b.Do(ctx, func(ctx context.Context, nested *lock.Hold) error {
				require.Equal(s, hold.Tokens()["/locks/b"], nested.Token())
				return both.Do(ctx, func(context.Context, *lock.MultiHold) error { return nested.Err() })
			})
		})
		require.NoError(s, err)
		err = a.Do(s.Context(), func(ctx context.Context, outer *lock.Hold) error {
			merged, err := both.Lock(ctx)
			require.NoError(s, err)
			require.Equal(s, outer.Token(), merged.Tokens()["/locks/a"])
			require.NoError(s, merged.Unlock(ctx))
			<-merged.Done()
			require.ErrorIs(s, merged.Err(), recipes.ErrReleased)
			return outer.Err()
		})
		require.NoError(s, err)
		s.requireNoNodes([]*lock.Mutex{a, b})
	})
}

func TestClientThatClosesEndsLockOfAll(t *testing.T) {
	bubble(t, func(s servers) {
		client, _, _, all := s.all("/locks/a", "/locks/b")
		other, _ := s.client()
		held := s.lock(s.mutexAt(other, "/locks/b", false))
		ended := make(chan error)
		go func() {
			_, err := all.Lock(s.Context())
			ended <- err
		}()
		synctest.Wait()
		client.Close()
		require.ErrorIs(s, <-ended, recipes.ErrClosed)
		require.NoError(s, held.Unlock(s.Context()))
	})
}

func TestAllRejectsInvalidArgumentsAndNamesThem(t *testing.T) {
	bubble(t, func(s servers) {
		client, _ := s.client()
		other, _ := s.client()
		a, b := s.mutexAt(client, "/locks/a", false), s.mutexAt(client, "/locks/b", false)
		for want, mutexes := range map[string][]*lock.Mutex{
			"lock all: no locks":                                         nil,
			"lock all: lock 2 of 2 is nil":                               {a, nil},
			"lock all /locks/a: given twice":                             {a, b, s.mutexAt(client, "/locks/a", false)},
			"lock all /locks/b: belongs to another client than /locks/a": {a, s.mutexAt(other, "/locks/b", false)},
		} {
			all, err := lock.All(mutexes...)
			require.Nil(s, all)
			require.EqualError(s, err, want)
		}
		all, err := lock.All(a, b)
		require.NoError(s, err)
		_, err = all.Lock(nil) //nolint:staticcheck // the test's subject
		require.ErrorContains(s, err, "context is nil")
		s.requireNoNodes([]*lock.Mutex{a, b})
	})
}
