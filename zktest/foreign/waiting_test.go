// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// bound ends the wait for what does not come. Nothing is measured by it.
const bound = 50 * time.Second

// bounded is the test's context, with an end that comes before the patience of go test.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	t.Cleanup(cancel)
	return ctx
}

// A waiting is a call of ours that is under way: a Lock or a Campaign.
type waiting[T any] struct {
	t    *testing.T
	done chan struct{} // closed when it has returned
	got  T
	err  error
}

// inBackground calls and returns. The test does not end before the call has.
func inBackground[T any](t *testing.T, call func(context.Context) (T, error)) *waiting[T] {
	t.Helper()
	w, ctx := &waiting[T]{t: t, done: make(chan struct{})}, bounded(t)
	go func() {
		defer close(w.done)
		w.got, w.err = call(ctx)
	}()
	t.Cleanup(func() { <-w.done })
	return w
}

// waits requires that the call has not returned.
func (w *waiting[T]) waits(why string) {
	w.t.Helper()
	select {
	case <-w.done:
		require.FailNow(w.t, "returned too early", "%v: %s", w.err, why)
	default:
	}
}

func (w *waiting[T]) result() T {
	w.t.Helper()
	<-w.done
	require.NoError(w.t, w.err)
	return w.got
}

// inLine waits until that many stand in line at the path, and requires that it comes about.
func inLine(t *testing.T, conn *zk.Conn, path string, want int) {
	t.Helper()
	ctx := bounded(t)
	for {
		children, _, changed, err := conn.ChildrenW(path)
		require.NoError(t, err)
		if len(children) == want {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			require.FailNow(t, "the line never got so long", "%d: %q", want, children)
		}
	}
}
