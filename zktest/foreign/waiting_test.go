// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// maxWait bounds each wait. No test measures it.
const maxWait = 2 * time.Minute

// bounded returns the test's context with a deadline before go test's.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), maxWait)
	t.Cleanup(cancel)
	return ctx
}

// A backgroundCall is a call of Lock or Campaign that is under way.
type backgroundCall[T any] struct {
	t    *testing.T
	done chan struct{} // closed when it has returned
	got  T
	err  error
}

// inBackground starts a call and returns. The test does not end before the call has.
func inBackground[T any](t *testing.T, call func(context.Context) (T, error)) *backgroundCall[T] {
	t.Helper()
	w, ctx := &backgroundCall[T]{t: t, done: make(chan struct{})}, bounded(t)
	go func() {
		defer close(w.done)
		w.got, w.err = call(ctx)
	}()
	t.Cleanup(func() { <-w.done })
	return w
}

// requireRunning requires that the call has not returned.
func (w *backgroundCall[T]) requireRunning(why string) {
	w.t.Helper()
	select {
	case <-w.done:
		require.FailNow(w.t, "returned too early", "%v: %s", w.err, why)
	default:
	}
}

// result waits for the call, and requires that it succeeds.
func (w *backgroundCall[T]) result() T {
	w.t.Helper()
	<-w.done
	require.NoError(w.t, w.err)
	return w.got
}

// waitForContenders waits until the path has that many children.
func waitForContenders(t *testing.T, conn *zk.Conn, path string, want int) {
	t.Helper()
	ctx := bounded(t)
	for {
		children, _, changed, err := conn.ChildrenW(path)
		if errors.Is(err, zk.ErrConnectionClosed) && ctx.Err() == nil {
			continue // the request was lost with its connection, and the next one waits for another
		}
		require.NoError(t, err)
		if len(children) == want {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			require.FailNow(t, "the queue does not reach the length", "%d: %q", want, children)
		}
	}
}
