// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// servers is an ensemble in a synctest bubble, which has a fake clock.
type servers struct {
	*testing.T
	*zktest.Ensemble
}

const timeout = 4 * time.Second

func bubble(t *testing.T, f func(s servers)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		ensemble, err := zktest.Run(t.Context(), &zktest.Options{InMemory: true, Tick: timeout / 4})
		require.NoError(t, err)
		defer func() { require.NoError(t, ensemble.Close()) }()
		f(servers{t, ensemble})
	})
}

// mutex returns the lock for a new client, and the link of that client to the servers.
func (s servers) mutex(owner string) (*lock.Mutex, *zktest.Link) {
	s.Helper()
	client, link := s.client()
	mu, err := lock.New(client, "/locks/a", &lock.Options{Owner: owner})
	require.NoError(s, err)
	return mu, link
}

// client returns a new client and its link to the servers.
func (s servers) client() (*recipes.Client, *zktest.Link) {
	s.Helper()
	link := s.Link()
	client, err := recipes.Connect(s.Context(), s.Addrs(), &recipes.Options{
		SessionTimeout: timeout, Dial: link.Dial, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(s, err)
	s.Cleanup(func() { client.Close() })
	return client, link
}

// mutexAt returns a client's lock at path.
func (s servers) mutexAt(client *recipes.Client, path string, reentrant bool) *lock.Mutex {
	s.Helper()
	mu, err := lock.New(client, path, &lock.Options{Reentrant: reentrant})
	require.NoError(s, err)
	return mu
}

func (s servers) lock(mu *lock.Mutex) *lock.Hold {
	s.Helper()
	hold, err := mu.Lock(s.Context())
	require.NoError(s, err)
	return hold
}

// wait calls Lock in the background until the test ends.
func (s servers) wait(mu *lock.Mutex) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := mu.Lock(ctx)
		ended <- err
	}()
	synctest.Wait()
	s.Cleanup(func() {
		cancel()
		require.ErrorIs(s, <-ended, context.Canceled)
	})
}

func TestHolderAndWaitersAreInQueueOrder(t *testing.T) {
	bubble(t, func(s servers) {
		a, _ := s.mutex("a")
		_, err := a.Holder(s.Context())
		require.ErrorIs(s, err, lock.ErrNoHolder)
		require.EqualError(s, err, "holder /locks/a: no holder")
		waiters, err := a.Waiters(s.Context())
		require.NoError(s, err)
		require.Empty(s, waiters)

		hold := s.lock(a)
		b, _ := s.mutex("b")
		c, _ := s.mutex("c")
		s.wait(b)
		s.wait(c)
		holder, err := c.Holder(s.Context())
		require.NoError(s, err)
		require.Equal(s, "a", holder.Owner)
		require.Equal(s, hold.Token(), holder.Token)
		waiters, err = a.Waiters(s.Context())
		require.NoError(s, err)
		require.Len(s, waiters, 2)
		require.Equal(s, "b", waiters[0].Owner)
		require.Equal(s, "c", waiters[1].Owner)
	})
}

func TestLockThatTimesOutNamesHolder(t *testing.T) {
	bubble(t, func(s servers) {
		a, _ := s.mutex("pod-7")
		hold := s.lock(a)
		b, _ := s.mutex("b")
		s.wait(b)
		c, _ := s.mutex("c")
		for _, wait := range []time.Duration{time.Minute, time.Second, time.Millisecond} {
			ctx, cancel := context.WithTimeout(s.Context(), wait)
			defer cancel()
			began := time.Now()
			_, err := c.Lock(ctx)
			require.Equal(s, wait, time.Since(began))
			require.ErrorIs(s, err, context.DeadlineExceeded)
			require.ErrorIs(s, err, lock.ErrLocked)
			var held *lock.HeldError
			require.ErrorAs(s, err, &held)
			require.Equal(s, "/locks/a", held.Path)
			require.Equal(s, hold.Token(), held.Holder.Token)
			require.ErrorContains(s, err, `lock /locks/a: held by "pod-7" since `)
			require.True(s, strings.HasSuffix(err.Error(), "context deadline exceeded"), "%v", err)
		}
	})
}

func TestLockReturnsAtItsDeadlineWhileNoServerAnswers(t *testing.T) {
	bubble(t, func(s servers) {
		a, _ := s.mutex("a")
		s.lock(a)
		b, link := s.mutex("b")
		ctx, cancel := context.WithTimeout(s.Context(), timeout/2)
		defer cancel()
		time.AfterFunc(timeout/4, func() { link.Refuse(true); link.Reset() })
		began := time.Now()
		_, err := b.Lock(ctx)
		require.Equal(s, timeout/2, time.Since(began))
		require.ErrorIs(s, err, context.DeadlineExceeded)
		require.NotErrorIs(s, err, lock.ErrLocked, "the holder is unknown")
		link.Refuse(false)
	})
}

// A countingConn counts the bytes that it receives.
type countingConn struct {
	net.Conn
	received *atomic.Int64
}

func (c countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err
}

func TestLocksThatTimeOutTogetherReadHolderOnce(t *testing.T) {
	bubble(t, func(s servers) {
		a, _ := s.mutex("a")
		s.lock(a)
		var received atomic.Int64
		client, err := recipes.Connect(s.Context(), s.Addrs(), &recipes.Options{
			SessionTimeout: timeout, Logger: slog.New(slog.DiscardHandler),
			Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := s.Dial(ctx, network, address)
				return countingConn{conn, &received}, err
			},
		})
		require.NoError(s, err)
		defer client.Close()
		b, err := lock.New(client, "/locks/a", nil)
		require.NoError(s, err)

		const waiters = 200
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		errs := make(chan error, waiters)
		for range waiters {
			go func() {
				_, err := b.Lock(ctx)
				errs <- err
			}()
		}
		time.Sleep(time.Minute - 1001*time.Millisecond)
		before := received.Load()
		time.Sleep(1000 * time.Millisecond)
		require.Less(s, received.Load()-before, int64(100_000), "one listing of the queue is 5 kB")
		for range waiters {
			var held *lock.HeldError
			require.ErrorAs(s, <-errs, &held)
			require.Equal(s, "a", held.Holder.Owner)
		}
	})
}

func TestCancelledLockIsNotReportedAsTimedOut(t *testing.T) {
	bubble(t, func(s servers) {
		a, _ := s.mutex("a")
		s.lock(a)
		b, _ := s.mutex("b")
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		time.AfterFunc(time.Minute-time.Millisecond, cancel) // the holder was read by then
		_, err := b.Lock(ctx)
		require.ErrorIs(s, err, context.Canceled)
		require.NotErrorIs(s, err, lock.ErrLocked)
	})
}

func TestGrantDoesNotWaitForReadOfHolder(t *testing.T) {
	bubble(t, func(s servers) {
		a, _ := s.mutex("a")
		hold := s.lock(a)
		b, link := s.mutex("b")
		link.Delay(100 * time.Millisecond) // the reads take 400 ms of the last second
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		time.AfterFunc(time.Minute-1400*time.Millisecond, func() { require.NoError(s, hold.Unlock(s.Context())) })
		began := time.Now()
		hold, err := b.Lock(ctx)
		require.NoError(s, err)
		require.Less(s, time.Since(began), time.Minute-300*time.Millisecond)
		require.NoError(s, hold.Unlock(s.Context()))
	})
}

func TestDoPassesHold(t *testing.T) {
	bubble(t, func(s servers) {
		a, _ := s.mutex("a")
		var token fencing.Token
		var done *lock.Hold
		err := a.Do(s.Context(), func(ctx context.Context, hold *lock.Hold) error {
			token, done = hold.Token(), hold
			require.NoError(s, hold.Check(ctx))
			return io.EOF
		})
		require.True(s, errors.Is(err, io.EOF) && !errors.Is(err, recipes.ErrLost), "%v", err)
		require.True(s, token.Valid())
		require.ErrorIs(s, done.Err(), recipes.ErrReleased)
	})
}

func TestUnlockInsideDoIsNotReportedAsLoss(t *testing.T) {
	bubble(t, func(s servers) {
		a, _ := s.mutex("a")
		require.NoError(s, a.Do(s.Context(), func(ctx context.Context, hold *lock.Hold) error { return hold.Unlock(ctx) }))
	})
}
