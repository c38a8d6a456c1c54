// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// bubble runs f in fake time with a server and two clients.
func bubble(t *testing.T, f func(t *testing.T, ensemble *zktest.Ensemble, a, b *recipes.Client)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		ensemble, err := zktest.Run(t.Context(), &zktest.Options{InMemory: true})
		require.NoError(t, err)
		defer func() { require.NoError(t, ensemble.Close()) }()
		connect := func() *recipes.Client {
			client, err := recipes.Connect(t.Context(), ensemble.Addrs(), &recipes.Options{
				Dial: ensemble.Link().Dial, Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			return client
		}
		a, b := connect(), connect()
		defer func() { a.Close(); b.Close() }()
		f(t, ensemble, a, b)
	})
}

func newElector(t *testing.T, client *recipes.Client) *elector {
	t.Helper()
	e, err := election.New(client, "/election/jobs", nil)
	require.NoError(t, err)
	return &elector{election: e}
}

// cause waits until ctx is done, and returns why.
func cause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Hour):
		return errors.New("not cancelled")
	}
}

func TestTermEndsAfterItsJobsHaveReturned(t *testing.T) {
	bubble(t, func(t *testing.T, _ *zktest.Ensemble, a, b *recipes.Client) {
		first, second := newElector(t, a), newElector(t, b)
		run := func(e *elector) func() {
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- e.Run(ctx) }()
			synctest.Wait()
			return func() { stop(); require.NoError(t, <-ended) }
		}
		stopFirst := run(first)
		stopSecond := run(second)
		require.NoError(t, first.IsLeader(t.Context()))
		require.ErrorIs(t, second.IsLeader(t.Context()), errNotLeader)

		job := first.job(func(ctx context.Context, term *election.Term) error {
			time.Sleep(time.Minute)
			if second.IsLeader(ctx) == nil {
				return errors.New("another pod leads")
			}
			return errors.Join(term.Err(), ctx.Err())
		})
		returned := make(chan error)
		go func() { returned <- job(t.Context()) }()
		synctest.Wait()
		stopped := make(chan struct{})
		go func() { stopFirst(); close(stopped) }()
		synctest.Wait()
		require.ErrorIs(t, first.IsLeader(t.Context()), errNotLeader, "no job begins while the term ends")
		require.ErrorIs(t, job(t.Context()), errNotLeader)
		require.NoError(t, <-returned)
		<-stopped
		synctest.Wait()
		require.NoError(t, second.IsLeader(t.Context()))
		stopSecond()
	})
}

func TestPodEndsWithTheErrorOfItsElection(t *testing.T) {
	ensemble := zktest.Start(t, nil)
	ensemble.Intercept(zktest.Rule{Op: "create", Below: "/election/jobs", Fail: zktest.ErrNoAuth})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	require.ErrorIs(t, new(demo).pod(ctx, "pod-1", ensemble.Addrs(), false), zk.ErrNoAuth)
	require.NoError(t, ctx.Err(), "it ends immediately")
}

func TestJobIsCancelledWhenItsTermIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, ensemble *zktest.Ensemble, a, _ *recipes.Client) {
		e := newElector(t, a)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- e.Run(ctx) }()
		synctest.Wait()
		err := e.job(func(ctx context.Context, _ *election.Term) error {
			require.NoError(t, ensemble.Expire(ctx, a.SessionID()))
			return cause(ctx)
		})(t.Context())
		require.ErrorIs(t, err, recipes.ErrLost)
		stop()
		require.NoError(t, <-ended)
	})
}

func TestRunOfJobIsSkippedWhileAnotherPodRunsIt(t *testing.T) {
	bubble(t, func(t *testing.T, _ *zktest.Ensemble, a, b *recipes.Client) {
		first, second := &locker{client: a, parent: "/jobs"}, &locker{client: b, parent: "/jobs"}
		run, err := first.Lock(t.Context(), "daily/report")
		require.NoError(t, err)
		_, err = second.Lock(t.Context(), "daily/report")
		require.ErrorIs(t, err, lock.ErrLocked)
		other, err := second.Lock(t.Context(), "cleanup")
		require.NoError(t, err)
		require.NoError(t, other.Unlock(t.Context()))
		require.NoError(t, run.Unlock(t.Context()))
		run, err = second.Lock(t.Context(), "daily/report")
		require.NoError(t, err)
		require.NoError(t, run.Unlock(t.Context()))
	})
}

func TestRunIsCancelledWhenItsLockIsLostAndNextWaitsForItsReturn(t *testing.T) {
	bubble(t, func(t *testing.T, ensemble *zktest.Ensemble, a, b *recipes.Client) {
		first, second := &locker{client: a, parent: "/jobs"}, &locker{client: b, parent: "/jobs"}
		run, err := first.Lock(t.Context(), "report")
		require.NoError(t, err)
		err = first.job("report", func(ctx context.Context, hold *lock.Hold) error {
			require.NoError(t, ensemble.Expire(ctx, a.SessionID()))
			lost := cause(ctx)
			_, err := first.Lock(t.Context(), "report")
			require.ErrorIs(t, err, errRunning)
			next, err := second.Lock(t.Context(), "report")
			require.NoError(t, err)
			defer func() { require.NoError(t, next.Unlock(t.Context())) }()
			return second.job("report", func(_ context.Context, newer *lock.Hold) error {
				require.Greater(t, newer.Token(), hold.Token())
				return lost
			})(t.Context())
		})(t.Context())
		require.ErrorIs(t, err, recipes.ErrLost)
		require.ErrorIs(t, run.Unlock(t.Context()), recipes.ErrLost)
		_, err = first.Lock(t.Context(), "report")
		require.NoError(t, err)
	})
}

func TestWaitReturnsWhenTheRunsHaveReturned(t *testing.T) {
	bubble(t, func(t *testing.T, _ *zktest.Ensemble, a, _ *recipes.Client) {
		l := &locker{client: a, parent: "/jobs"}
		run, err := l.Lock(t.Context(), "report")
		require.NoError(t, err)
		_, err = l.Lock(t.Context(), "report")
		require.ErrorIs(t, err, errRunning)
		returned := make(chan struct{})
		go func() { l.Wait(); close(returned) }()
		synctest.Wait()
		select {
		case <-returned:
			require.Fail(t, "the client would be closed while the job runs")
		default:
		}
		require.NoError(t, run.Unlock(t.Context()))
		<-returned
	})
}

func TestJobWithoutLockIsAnError(t *testing.T) {
	err := (&locker{}).job("cleanup", nil)(t.Context())
	require.ErrorContains(t, err, `job "cleanup": no lock`)
}
