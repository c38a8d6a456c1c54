// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestErrorOfStoppedWorkIsNotFailure(t *testing.T) {
	for _, err := range []error{
		context.Canceled,
		context.DeadlineExceeded,
		recipes.ErrLost,
		&fencing.StaleError{Token: 1, Newest: 2},
	} {
		require.True(t, isStop(err), "%v", err)
		require.True(t, isStop(fmt.Errorf("write row 7: %w", err)), "%v", err)
	}
	for _, err := range []error{nil, io.EOF, errors.New("context canceled"), recipes.ErrUncertain, fencing.ErrInvalid} {
		require.False(t, isStop(err), "%v", err)
	}
}

func TestRunWaitsWithoutBoundForWorkWhoseContextIsOpen(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := &Election{stopTimeout: time.Second}
		r, err := e.await(t.Context(), after(time.Hour, io.EOF))
		require.NoError(t, err)
		require.Equal(t, io.EOF, r.err)
	})
}

func TestRunWithoutStopTimeoutWaitsForSlowWork(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r, err := new(Election).await(ctx, after(time.Hour, io.EOF))
		require.NoError(t, err)
		require.Equal(t, io.EOF, r.err)
	})
}

func TestStopTimeoutRunsFromEndOfWorkContext(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Hour, func() { cancel(recipes.ErrDeleted) })
		e := &Election{stopTimeout: time.Minute}

		began := time.Now()
		r, err := e.await(ctx, after(time.Hour+59*time.Second, io.EOF))
		require.NoError(t, err, "the work stopped in time")
		require.Equal(t, io.EOF, r.err)
		require.Equal(t, time.Hour+59*time.Second, time.Since(began))

		began = time.Now()
		_, err = e.await(ctx, after(61*time.Second, io.EOF))
		require.ErrorIs(t, err, ErrOverrun)
		require.ErrorIs(t, err, recipes.ErrDeleted, "the reason why the work had to stop")
		require.ErrorContains(t, err, "1m0s")
		require.Equal(t, time.Minute, time.Since(began))
	})
}

// after returns the result channel of work that returns err after d.
func after(d time.Duration, err error) <-chan result {
	results := make(chan result, 1)
	time.AfterFunc(d, func() { results <- result{err: err} })
	return results
}

func TestPanicErrorHasValueAndStack(t *testing.T) {
	err := &PanicError{Value: "index out of range", Stack: []byte("goroutine 7 [running]:")}
	require.EqualError(t, err, "work panicked: index out of range\n\ngoroutine 7 [running]:")
	require.NoError(t, errors.Unwrap(err), "the value is not an error")

	require.ErrorIs(t, &PanicError{Value: fmt.Errorf("read: %w", io.EOF)}, io.EOF)
}

func TestRunRejectsNilWork(t *testing.T) {
	e := &Election{queue: &queue.Queue{}}
	require.ErrorContains(t, e.Run(t.Context(), nil), "work is nil")
}
