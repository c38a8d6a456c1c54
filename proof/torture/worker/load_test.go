// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/attempt"
	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
)

// queues is a Library that grants a path to one contender at a time, in any order, until the holder releases it.
type queues struct {
	mu     sync.Mutex // guards free
	free   map[string]chan struct{}
	tokens int64
}

func (q *queues) Connect(context.Context, *Spec) (Client, error) { return queueClient{q}, nil }
func (q *queues) Supports(string) bool                           { return true }
func (q *queues) Reason(err error) string                        { return err.Error() }

type queueClient struct{ *queues }

func (queueClient) Close() {}

func (c queueClient) Acquire(ctx context.Context, how, path string) (Hold, error) {
	c.mu.Lock()
	free := c.free[path]
	if free == nil {
		free = make(chan struct{}, 1)
		c.free[path] = free
	}
	c.mu.Unlock()
	if how == "try" {
		select {
		case free <- struct{}{}:
		default:
			return nil, ErrHeld
		}
	} else {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens++
	return &queueHold{free: free, token: c.tokens, done: make(chan struct{})}, nil
}

type queueHold struct {
	free  chan struct{}
	token int64
	done  chan struct{}
}

func (h *queueHold) Grant() history.Event { return history.Event{Token: history.ID(h.token)} }
func (*queueHold) Deadline() time.Time    { return time.Now().Add(time.Hour) }
func (h *queueHold) Done() <-chan struct{} {
	return h.done
}
func (*queueHold) Cause() history.Cause { return history.GivenUp }
func (h *queueHold) Release(context.Context) error {
	close(h.done)
	<-h.free
	return nil
}

// startLoaded starts a worker with one client and, on another one, waiters and holds.
func startLoaded(t *testing.T, waiters, holds int) (out *eventBuffer, in *io.PipeWriter, over chan error) {
	t.Helper()
	spec, err := json.Marshal(Spec{
		Name: "c1.1", Paths: []string{"/a"}, Timeout: history.Instant(4 * time.Second), Began: clock.Start().Began, First: 1, Clients: 1,
		Register: registersOf(t).Addr(), Waiters: waiters, Holds: holds, HoldsAt: "/holds/1",
	})
	require.NoError(t, err)
	commands, in := io.Pipe()
	out, over = &eventBuffer{}, make(chan error, 1)
	go func() { over <- RunWith(&queues{free: map[string]chan struct{}{}}, string(spec), commands, out) }()
	t.Cleanup(func() { require.NoError(t, in.Close()) })
	return out, in, over
}

func TestLoadHoldsAllLocksUntilStopWhileWaitersContend(t *testing.T) {
	const waiters, holds = 20, 30
	out, in, over := startLoaded(t, waiters, holds)
	held := func() map[string]int {
		of := map[string]int{}
		for _, e := range out.events(t, history.Granted) {
			if strings.HasPrefix(e.Path, "/holds/1/") {
				require.Positive(t, e.Deadline)
				of[e.Path]++
			}
		}
		return of
	}
	require.Eventually(t, func() bool {
		return len(held()) == holds && len(out.events(t, history.Asked)) > holds+waiters
	}, time.Minute, time.Millisecond)
	for path, times := range held() {
		require.Equal(t, 1, times, path)
	}
	for _, e := range out.events(t, history.Released) {
		require.Equal(t, "/a", e.Path)
	}
	stopAndClose(t, in)
	require.NoError(t, <-over)
	require.Len(t, out.events(t, history.Released), len(out.events(t, history.Granted)), "everything is released")
	asked := len(out.events(t, history.Asked))
	require.Equal(t, asked, len(out.events(t, history.Granted))+len(out.events(t, history.Failed)), "no attempt waits")
}

func TestCancelEndsAllWaitersOfAPath(t *testing.T) {
	const waiters = 20
	out, in, over := startLoaded(t, waiters, 0)
	// waiting returns the attempts that wait without a timeout: nothing else than Cancel, or the grant, ends them.
	waiting := func() map[int]bool {
		is := map[int]bool{}
		for _, e := range out.events(t, history.Asked) {
			if !strings.Contains(e.Text, ", for ") {
				is[e.Attempt] = true
			}
		}
		for _, kind := range []history.Kind{history.Granted, history.Failed} {
			for _, e := range out.events(t, kind) {
				delete(is, e.Attempt)
			}
		}
		return is
	}
	// While one contender holds for long, the others begin to wait.
	require.Eventually(t, func() bool { return len(out.events(t, history.Granted)) > 0 }, time.Minute, time.Millisecond)
	for n := range 1000 {
		_, err := fmt.Fprintln(in, Extend, n, "1h")
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return len(waiting()) > waiters*3/4 }, time.Minute, time.Millisecond)
	isCancelled := func() map[int]bool {
		is := map[int]bool{}
		for _, e := range out.events(t, history.Failed) {
			if e.Error == attempt.Cancelled {
				is[e.Attempt] = true
			}
		}
		return is
	}
	require.Empty(t, isCancelled())
	before := waiting()
	_, err := io.WriteString(in, Cancel+" /b\n"+Cancel+" /a\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		now := waiting()
		for attempt := range before {
			if now[attempt] {
				return false
			}
		}
		return true
	}, time.Minute, time.Millisecond)
	ended := isCancelled()
	granted := 0 // at most one was granted the lock before: by a holder that ended its work before Extend
	for attempt := range before {
		if !ended[attempt] {
			granted++
		}
	}
	require.LessOrEqual(t, granted, 1)
	require.Eventually(t, func() bool { return len(waiting()) > waiters*3/4 }, time.Minute, time.Millisecond, "they join again")
	for n := range 1000 {
		_, err := fmt.Fprintln(in, Extend, n, "0s")
		require.NoError(t, err)
	}
	stopAndClose(t, in)
	require.NoError(t, <-over)
}

func TestUnrequestedCancellationIsUnexpected(t *testing.T) {
	require.True(t, attempt.MayFail("lock", attempt.Cancelled))
	require.False(t, attempt.MayFail("lock", context.Canceled.Error()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, wasCancelled(t.Context(), context.Canceled), "the worker cancelled nothing")
	require.False(t, wasCancelled(ctx, context.Canceled))
	burst, end := context.WithCancelCause(t.Context())
	end(errBurst)
	require.True(t, wasCancelled(burst, fmt.Errorf("wait: %w", context.Canceled)))
	require.False(t, wasCancelled(burst, errFails))
}
