// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
)

func TestFailedWorkIsRetriedAfterGrowingBackoff(t *testing.T) {
	bubble(t, func(s servers) {
		var failures []error
		c := s.candidate(election.Options{
			CoolDown: time.Millisecond, RetryBackoff: time.Second, MaxRetryBackoff: 5 * time.Second,
			Retry: func(err error) bool {
				require.Empty(s, s.nodes(), "the term was resigned before Retry is called")
				failures = append(failures, err)
				return true
			},
		})
		var began []time.Time
		r := s.run(c, func(ctx context.Context, term *election.Term) error {
			began = append(began, time.Now())
			switch len(began) {
			case 6:
				time.Sleep(5 * time.Second) // ran for MaxRetryBackoff, which resets the back-off
			case 8:
				return nil // did not fail
			case 10:
				return untilDone(ctx, term)
			}
			return io.EOF
		})
		for range 10 {
			<-r.leads
		}
		r.stop()
		require.NoError(s, <-r.result)
		require.Len(s, failures, 8)
		for _, err := range failures {
			require.Equal(s, io.EOF, err)
		}
		most := []time.Duration{1, 2, 4, 5, 5, 1 + 5, 2, 0, 1} // seconds
		for i, d := range most {
			waited := began[i+1].Sub(began[i])
			least := d * time.Second / 2
			if i == 5 {
				least = 5*time.Second + time.Second/2
			}
			require.GreaterOrEqual(s, waited, least, "before term %d", i+2)
			require.LessOrEqual(s, waited, d*time.Second+time.Second/4, "before term %d", i+2)
		}
	})
}

func TestWorkIsRetriedOnlyIfRetryReturnsTrue(t *testing.T) {
	for name, retry := range map[string]func(error) bool{"no Retry": nil, "Retry returns false": func(error) bool { return false }} {
		bubble(t, func(s servers) {
			r := s.run(s.candidate(election.Options{Retry: retry}), func(context.Context, *election.Term) error { return io.EOF })
			require.ErrorIs(s, <-r.result, io.EOF, name)
			require.Empty(s, s.nodes())
		})
	}
}

func TestRunWhoseContextEndsDuringBackoffReturnsNil(t *testing.T) {
	bubble(t, func(s servers) {
		called := make(chan struct{})
		r := s.run(s.candidate(election.Options{
			RetryBackoff: time.Hour, MaxRetryBackoff: time.Hour,
			Retry: func(error) bool { close(called); return true },
		}), func(context.Context, *election.Term) error { return io.EOF })
		<-called
		time.Sleep(time.Minute)
		began := time.Now()
		r.stop()
		require.NoError(s, <-r.result, "the failure was passed to Retry")
		require.Zero(s, time.Since(began))
	})
}

func TestPanicAndOverrunAreNotRetried(t *testing.T) {
	bubble(t, func(s servers) {
		retry := func(error) bool { panic("Retry was called") }
		c := s.candidate(election.Options{Retry: retry})
		require.Panics(s, func() {
			_ = c.Run(s.Context(), func(context.Context, *election.Term) error { panic("of the work") })
		})
		c = s.candidate(election.Options{Retry: retry, StopTimeout: time.Second})
		release := make(chan struct{})
		defer close(release)
		r := s.run(c, func(ctx context.Context, term *election.Term) error {
			require.NoError(s, s.Delete(term.Path()))
			<-release
			return nil
		})
		require.ErrorIs(s, <-r.result, election.ErrOverrun)
	})
}

func TestLossOfTermIsNotRetriedAsFailure(t *testing.T) {
	bubble(t, func(s servers) {
		c := s.candidate(election.Options{Retry: func(error) bool { panic("Retry was called") }})
		r := s.run(c, func(ctx context.Context, term *election.Term) error {
			if len(s.nodes()) == 1 && s.Delete(term.Path()) == nil {
				return untilDone(ctx, term)
			}
			return nil
		})
		<-r.leads
		<-r.leads
		r.stop()
		require.NoError(s, <-r.result)
	})
}
