// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestTryLockOfAllTakesFreeLocksInOneTransaction(t *testing.T) {
	bubble(t, func(s servers) {
		_, _, mutexes, all := s.all("/locks/a", "/locks/b")
		hold, err := all.TryLock(s.Context())
		require.NoError(s, err)
		require.Equal(s, hold.Tokens()["/locks/a"], hold.Tokens()["/locks/b"], "the zxid of the transaction")
		_, err = all.TryLock(s.Context())
		require.ErrorIs(s, err, lock.ErrLocked)
		require.NoError(s, hold.Unlock(s.Context()))
		s.requireNoNodes(mutexes)
	})
}

func TestTryLockOfAllCreatesNothingIfOneLockIsHeldAndNamesItsHolder(t *testing.T) {
	bubble(t, func(s servers) {
		_, link, mutexes, all := s.all("/locks/a", "/locks/b", "/locks/c")
		other, _ := s.client()
		held := s.lock(s.mutexAt(other, "/locks/b", false))
		counted := link.Intercept(zktest.Rule{Op: "multi"})
		_, err := all.TryLock(s.Context())
		locked := (*lock.HeldError)(nil)
		require.ErrorAs(s, err, &locked)
		require.Equal(s, "/locks/b", locked.Path)
		require.Contains(s, held.Path(), locked.Holder.Name)
		require.Zero(s, counted.Fired())
		require.NoError(s, held.Unlock(s.Context()))
		s.requireNoNodes(mutexes)
	})
}

func TestTryLockOfAllEndsAfterTheSecondLostRace(t *testing.T) {
	bubble(t, func(s servers) {
		_, link, mutexes, all := s.all("/locks/a", "/locks/b")
		other, _ := s.client()
		b := s.mutexAt(other, "/locks/b", false)
		for _, m := range append(mutexes, b) { // so that all parents exist and are known
			require.NoError(s, s.lock(m).Unlock(s.Context()))
		}
		races := link.Intercept(zktest.Rule{Op: "multi", Below: "/locks/b", Before: func(zktest.Request) {
			hold, err := b.Lock(s.Context())
			if err == nil {
				err = hold.Unlock(s.Context())
			}
			if err != nil {
				s.Errorf("lock: %v", err)
			}
		}})
		_, err := all.TryLock(s.Context())
		locked := (*lock.HeldError)(nil)
		require.ErrorAs(s, err, &locked)
		require.Equal(s, "/locks/b", locked.Path)
		require.Empty(s, locked.Holder, "it has left")
		require.Equal(s, 2, races.Fired())
		races.Remove()
		s.requireNoNodes(mutexes)
	})
}

func TestTryLockOfAllThatAServerRefusesReturnsTheRefusalAndNamesItsLock(t *testing.T) {
	bubble(t, func(s servers) {
		_, link, mutexes, all := s.all("/locks/a", "/locks/b")
		refused := link.Intercept(zktest.Rule{Op: "create", Below: "/locks/b", Fail: zktest.ErrNoAuth})
		_, err := all.TryLock(s.Context())
		require.ErrorIs(s, err, zk.ErrNoAuth)
		require.NotErrorIs(s, err, lock.ErrLocked)
		require.ErrorContains(s, err, "/locks/b")
		refused.Remove()
		s.requireNoNodes(mutexes)
	})
}

func TestTryLockOfMoreLocksThanATransactionTakesGivesBackThoseThatItHas(t *testing.T) {
	bubble(t, func(s servers) {
		paths := make([]string, 65)
		for i := range paths {
			paths[i] = fmt.Sprintf("/locks/%02d", i)
		}
		_, _, mutexes, all := s.all(paths...)
		other, _ := s.client()
		held := s.lock(s.mutexAt(other, "/locks/64", false))
		_, err := all.TryLock(s.Context())
		locked := (*lock.HeldError)(nil)
		require.ErrorAs(s, err, &locked)
		require.Equal(s, "/locks/64", locked.Path)
		require.NoError(s, held.Unlock(s.Context()))
		hold, err := all.TryLock(s.Context())
		require.NoError(s, err)
		require.NoError(s, hold.Unlock(s.Context()))
		s.requireNoNodes(mutexes)
	})
}

// A server closes the connection over a packet of 1 MiB, and all requests of the client end with it. In JSON each byte of these
// owners takes six.
func TestLocksWhoseRecordsDoNotFitATransactionAreTakenOneAfterAnotherOnTheSameConnection(t *testing.T) {
	bubble(t, func(s servers) {
		client, link := s.client()
		mutexes := make([]*lock.Mutex, 50)
		for i := range mutexes {
			var err error
			mutexes[i], err = lock.New(client, fmt.Sprintf("/locks/%02d", i), &lock.Options{Owner: strings.Repeat("<", 4096)})
			require.NoError(s, err)
		}
		all, err := lock.All(mutexes...)
		require.NoError(s, err)
		connected := link.Intercept(zktest.Rule{Op: "connect"})
		for _, take := range []func(context.Context) (*lock.MultiHold, error){all.Lock, all.TryLock} {
			hold, err := take(s.Context())
			require.NoError(s, err)
			require.NoError(s, hold.Unlock(s.Context()))
		}
		require.Zero(s, connected.Fired())
		s.requireNoNodes(mutexes)
	})
}

// reading returns a lock of all of the lock at /locks/a, and of that at /locks/rw for reading.
func (s servers) reading() (a, rw *lock.Mutex, all *lock.MultiMutex, link *zktest.Link) {
	s.Helper()
	client, link := s.client()
	both, err := lock.NewRW(client, "/locks/rw", nil)
	require.NoError(s, err)
	a, rw = s.mutexAt(client, "/locks/a", false), both.RLocker()
	all, err = lock.All(rw, a)
	require.NoError(s, err)
	return a, rw, all, link
}

func TestAllTakesReadLockBesideOtherReadersInOneTransaction(t *testing.T) {
	bubble(t, func(s servers) {
		a, rw, all, _ := s.reading()
		others := s.rwMutex()
		reader, err := others.RLock(s.Context())
		require.NoError(s, err)
		for _, take := range []func() (*lock.MultiHold, error){
			func() (*lock.MultiHold, error) { return all.Lock(s.Context()) },
			func() (*lock.MultiHold, error) { return all.TryLock(s.Context()) },
		} {
			hold, err := take()
			require.NoError(s, err)
			require.Equal(s, hold.Claim(a).Token(), hold.Claim(rw).Token(), "the zxid of the transaction")
			require.True(s, hold.Claim(rw).Shared())
			require.False(s, hold.Claim(a).Shared())
			require.NoError(s, reader.Err())
			_, err = others.TryLock(s.Context())
			require.ErrorIs(s, err, lock.ErrLocked)
			second, err := others.TryRLock(s.Context())
			require.NoError(s, err)
			require.NoError(s, second.Unlock(s.Context()))
			require.NoError(s, hold.Unlock(s.Context()))
		}
		require.NoError(s, reader.Unlock(s.Context()))
		s.requireNoNodes([]*lock.Mutex{a, rw})
	})
}

func TestAllWithReadLockWaitsForWriter(t *testing.T) {
	bubble(t, func(s servers) {
		a, rw, all, _ := s.reading()
		others := s.rwMutex()
		writer, err := others.Locker().Lock(s.Context())
		require.NoError(s, err)
		_, err = all.TryLock(s.Context())
		locked := (*lock.HeldError)(nil)
		require.ErrorAs(s, err, &locked)
		require.Equal(s, "/locks/rw", locked.Path)
		got := make(chan *lock.MultiHold, 1)
		go func() {
			hold, err := all.Lock(s.Context())
			if err != nil {
				s.Errorf("lock all: %v", err)
			}
			got <- hold
		}()
		synctest.Wait()
		require.Empty(s, got)
		require.NoError(s, writer.Unlock(s.Context()))
		hold := <-got
		require.NotNil(s, hold)
		require.True(s, hold.Claim(rw).Shared())
		require.NoError(s, hold.Unlock(s.Context()))
		s.requireNoNodes([]*lock.Mutex{a, rw})
	})
}

// A writer that joins after the queue was listed is ahead of the reader, whose join does not notice it.
func TestWriterThatJoinsAfterListingKeepsAllFromBeingTakenTogether(t *testing.T) {
	bubble(t, func(s servers) {
		a, rw, all, link := s.reading()
		others := s.rwMutex()
		hold, err := all.Lock(s.Context())
		require.NoError(s, err)
		require.NoError(s, hold.Unlock(s.Context()))
		var writer *lock.WriteHold
		rule := link.Intercept(zktest.Rule{Op: "multi", Below: "/locks/rw", Times: 1, Before: func(zktest.Request) {
			if writer, err = others.Lock(s.Context()); err != nil {
				s.Errorf("lock: %v", err)
			}
		}})
		_, err = all.TryLock(s.Context())
		require.ErrorIs(s, err, lock.ErrLocked)
		require.Equal(s, 1, rule.Fired())
		require.NoError(s, writer.Unlock(s.Context()))
		s.requireNoNodes([]*lock.Mutex{a, rw})
	})
}

func TestAllRefusesTheReadAndTheWriteLockOfOnePath(t *testing.T) {
	bubble(t, func(s servers) {
		rw := s.rwMutex()
		_, err := lock.All(rw.RLocker(), rw.Locker())
		require.EqualError(s, err, "lock all /locks/rw: given twice")
	})
}

func TestClaimOfALockOfAllIsFoundByEachMutexOfThatLockAndMode(t *testing.T) {
	bubble(t, func(s servers) {
		client, _ := s.client()
		rw, err := lock.NewRW(client, "/locks/rw", nil)
		require.NoError(s, err)
		other := s.mutexAt(client, "/locks/other", false)
		all, err := lock.All(rw.RLocker(), s.mutexAt(client, "/locks/a", false))
		require.NoError(s, err)
		hold, err := all.Lock(s.Context())
		require.NoError(s, err)
		claim := hold.Claim(rw.RLocker())
		require.NotNil(s, claim)
		require.Equal(s, hold.Tokens()["/locks/rw"], claim.Token())
		for _, m := range []*lock.Mutex{rw.Locker(), other, {}, nil} {
			require.Nil(s, hold.Claim(m))
		}
		require.NoError(s, hold.Unlock(s.Context()))
	})
}
