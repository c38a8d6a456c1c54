// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// rwMutex returns the lock at /locks/rw for a new client.
func (s servers) rwMutex() *lock.RWMutex {
	s.Helper()
	client, err := recipes.Connect(s.Context(), s.Addrs(), &recipes.Options{
		SessionTimeout: timeout, Dial: s.Dial, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(s, err)
	s.Cleanup(func() { client.Close() })
	m, err := lock.NewRW(client, "/locks/rw", nil)
	require.NoError(s, err)
	return m
}

// The race detector sees a writer that is not alone.
func TestWritersExcludeReadersAndEachOther(t *testing.T) {
	bubble(t, func(s servers) {
		a, b := s.rwMutex(), s.rwMutex()
		value, writes := 0, 0
		var all sync.WaitGroup
		for _, m := range []*lock.RWMutex{a, b} {
			for range 3 {
				all.Go(func() {
					err := m.Do(s.Context(), func(context.Context, *lock.WriteHold) error {
						value++
						time.Sleep(time.Millisecond)
						value++
						writes++
						return nil
					})
					if err != nil {
						s.Errorf("write: %v", err)
					}
				})
				all.Go(func() {
					err := m.RDo(s.Context(), func(context.Context, *lock.Hold) error {
						if value%2 != 0 {
							return errors.New("reader beside a writer")
						}
						time.Sleep(time.Millisecond)
						return nil
					})
					if err != nil {
						s.Errorf("read: %v", err)
					}
				})
			}
		}
		all.Wait()
		require.Equal(s, 6, writes)
	})
}

func TestRLockThatTimesOutNamesHolder(t *testing.T) {
	bubble(t, func(s servers) {
		writer, reader := s.rwMutex(), s.rwMutex()
		hold, err := writer.Lock(s.Context())
		require.NoError(s, err)
		ctx, cancel := context.WithTimeout(s.Context(), timeout)
		defer cancel()
		_, err = reader.RLock(ctx)
		require.ErrorIs(s, err, lock.ErrLocked)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		_, err = reader.TryRLock(s.Context())
		require.ErrorIs(s, err, lock.ErrLocked)
		contenders, err := reader.Contenders(s.Context())
		require.NoError(s, err)
		require.Len(s, contenders, 1, "the waiter left nothing")
		require.NoError(s, hold.Unlock(s.Context()))
	})
}

func TestTokensOfReadersNeverRefuseEachOther(t *testing.T) {
	bubble(t, func(s servers) {
		m := s.rwMutex()
		var gate fencing.Gate
		write, err := m.TryLock(s.Context())
		require.NoError(s, err)
		require.NoError(s, gate.Admit(write.Token()))
		require.False(s, write.Shared())
		require.NoError(s, write.Downgrade(s.Context()))
		require.True(s, write.Shared())
		first, err := m.RLock(s.Context())
		require.NoError(s, err)
		second, err := m.TryRLock(s.Context())
		require.NoError(s, err)
		for _, token := range []fencing.Token{second.Token(), first.Token(), write.Token()} {
			require.NoError(s, gate.AdmitShared(token))
		}
		for _, hold := range []*lock.Hold{first, second, write.Hold} {
			require.NoError(s, hold.Unlock(s.Context()))
		}
		require.ErrorIs(s, write.Downgrade(s.Context()), recipes.ErrReleased)
		next, err := m.Lock(s.Context())
		require.NoError(s, err)
		require.NoError(s, gate.Admit(next.Token()))
		require.ErrorIs(s, gate.AdmitShared(second.Token()), fencing.ErrStale)
		require.NoError(s, next.Unlock(s.Context()))
	})
}

func TestNewRWRejectsInvalidArgumentsAndNamesThem(t *testing.T) {
	_, err := lock.NewRW(&recipes.Client{}, "locks", nil)
	require.ErrorContains(t, err, `path "locks"`)
	_, err = lock.NewRW(&recipes.Client{}, "/locks/a", &lock.RWOptions{ReleaseTimeout: -1})
	require.ErrorContains(t, err, "release timeout -1ns")
	_, err = lock.NewRW(nil, "/locks/a", nil)
	require.ErrorContains(t, err, "client is nil")
}
