// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
)

var errSick = errors.New("queue of 9000 items")

// failsAt returns a health check that counts its calls and fails in call n.
func failsAt(n int32, fail func(ctx context.Context) error) (check func(context.Context) error, calls *atomic.Int32) {
	calls = new(atomic.Int32)
	return func(ctx context.Context) error {
		if calls.Add(1) == n {
			return fail(ctx)
		}
		return nil
	}, calls
}

func sick(context.Context) error { return errSick }

func TestFailedHealthCheckEndsTermAfterTheWorkHasStopped(t *testing.T) {
	bubble(t, func(s servers) {
		check, calls := failsAt(4, sick)
		c := s.candidate(election.Options{Health: check, HealthInterval: time.Minute})
		began := time.Now()
		const stopping = time.Second
		r := s.run(c, func(ctx context.Context, term *election.Term) error {
			<-ctx.Done()
			require.ErrorIs(s, context.Cause(ctx), errSick)
			time.Sleep(stopping)
			require.NoError(s, term.Check(s.Context()), "no other candidate leads while the work stops")
			return context.Cause(ctx)
		})
		<-r.leads
		next := s.run(s.candidate(election.Options{}), untilDone)
		err := <-r.result
		require.ErrorIs(s, err, election.ErrUnhealthy)
		require.EqualError(s, err, "run: health check failed: queue of 9000 items")
		require.Equal(s, 3*time.Minute+stopping, time.Since(began).Truncate(time.Second))
		require.EqualValues(s, 4, calls.Load())
		<-next.leads
		next.stop()
		require.NoError(s, <-next.result)
	})
}

func TestHealthCheckThatDoesNotAnswerInTimeHasFailed(t *testing.T) {
	for name, fail := range map[string]func(context.Context) error{
		"returns when its context is done": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"ignores its context for a while":  func(context.Context) error { time.Sleep(15 * time.Second); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(s servers) {
				check, _ := failsAt(1, fail)
				var failures []error
				c := s.candidate(election.Options{
					Health: check, HealthTimeout: 10 * time.Second,
					Retry: func(err error) bool { failures = append(failures, err); return true },
				})
				var stopped time.Duration
				began := time.Now()
				r := s.run(c, func(ctx context.Context, term *election.Term) error {
					<-ctx.Done()
					if stopped == 0 {
						stopped = time.Since(began).Truncate(time.Second)
					}
					return nil
				})
				<-r.leads
				<-r.leads // again, as Retry decided
				require.Len(s, failures, 1)
				require.ErrorIs(s, failures[0], election.ErrUnhealthy)
				require.Equal(s, 10*time.Second, stopped)
				r.stop()
				require.NoError(s, <-r.result)
			})
		})
	}
}

func TestHealthCheckThatNeverReturnsEndsRunAndNotTheElection(t *testing.T) {
	bubble(t, func(s servers) {
		release := make(chan struct{})
		defer close(release)
		check, calls := failsAt(2, func(context.Context) error { <-release; return nil })
		c := s.candidate(election.Options{
			Health: check, HealthInterval: time.Minute, HealthTimeout: 10 * time.Second,
			Retry: func(error) bool { t.Error("a check that is blocked cannot be repeated"); return true },
		})
		began := time.Now()
		r := s.run(c, untilDone)
		<-r.leads
		next := s.run(s.candidate(election.Options{}), untilDone)
		<-next.leads
		require.Equal(s, 70*time.Second, time.Since(began).Truncate(time.Second), "the next candidate does not wait for the check")
		err := <-r.result
		require.ErrorIs(s, err, election.ErrUnhealthy)
		require.ErrorContains(s, err, "has not returned")
		require.Equal(s, 80*time.Second, time.Since(began).Truncate(time.Second))
		require.EqualValues(s, 2, calls.Load())
		next.stop()
		require.NoError(s, <-next.result)
	})
}

func TestPanicAndGoexitOfHealthCheckAreFailures(t *testing.T) {
	for want, fail := range map[string]func(context.Context) error{
		"the check panicked: nil map": func(context.Context) error { panic("nil map") },
		"runtime.Goexit":              func(context.Context) error { runtime.Goexit(); return nil },
	} {
		bubble(t, func(s servers) {
			check, _ := failsAt(1, fail)
			r := s.run(s.candidate(election.Options{Health: check}), untilDone)
			err := <-r.result
			require.ErrorIs(s, err, election.ErrUnhealthy)
			require.ErrorContains(s, err, want)
			require.Empty(s, s.nodes())
		})
	}
}

func TestHealthCheckThatTheEndOfTheTermInterruptsHasNotFailed(t *testing.T) {
	bubble(t, func(s servers) {
		checks := make(chan struct{}, 10)
		c := s.candidate(election.Options{Health: func(ctx context.Context) error {
			checks <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}})
		r := s.run(c, untilDone)
		<-checks
		r.stop()
		require.NoError(s, <-r.result)
		require.Empty(s, s.nodes())
	})
}

func TestHealthIsCheckedOnlyWhileWorkRuns(t *testing.T) {
	bubble(t, func(s servers) {
		first := s.run(s.candidate(election.Options{}), untilDone)
		<-first.leads
		check, calls := failsAt(0, sick)
		r := s.run(s.candidate(election.Options{Health: check, CoolDown: time.Hour}), func(context.Context, *election.Term) error {
			time.Sleep(12 * time.Second)
			return nil
		})
		time.Sleep(time.Minute)
		require.Zero(s, calls.Load(), "a candidate is not checked")
		first.stop()
		require.NoError(s, <-first.result)
		time.Sleep(time.Minute)
		require.EqualValues(s, 3, calls.Load(), "at 0, 5 and 10 s of the work")
		r.stop()
		require.NoError(s, <-r.result)
	})
}
