// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
	"github.com/lockkeeper/lockkeeper/proof/torture/register"
)

// A failingLibrary is a Library whose Acquire fails until works is set.
type failingLibrary struct {
	works  atomic.Bool   // Acquire succeeds
	failed chan struct{} // signals each failure, if a test receives

	broken  bool         // each failure breaks the client
	made    atomic.Int64 // clients
	closed  atomic.Int64 // clients
	left    atomic.Int64 // outstanding nodes of each client
	deletes bool         // they are deleted in the background, once a client was asked for them
}

var errFails = errors.New("acquire: failed")

func (l *failingLibrary) Connect(context.Context, *Spec) (Client, error) {
	l.made.Add(1)
	return failingClient{l}, nil
}
func (l *failingLibrary) Supports(string) bool    { return true }
func (l *failingLibrary) Reason(err error) string { return err.Error() }

type failingClient struct{ *failingLibrary }

func (c failingClient) Close() { c.closed.Add(1) }
func (c failingClient) Outstanding() int {
	if c.deletes {
		return int(c.left.Swap(0))
	}
	return int(c.left.Load())
}

func (c failingClient) Acquire(ctx context.Context, _, _ string) (Hold, error) {
	if c.works.Load() {
		return failingHold{make(chan struct{})}, nil
	}
	select {
	case c.failed <- struct{}{}:
	default:
	}
	if ctx.Err() == nil && c.broken {
		return nil, &BrokenError{errFails}
	}
	return nil, errFails
}

type failingHold struct{ done chan struct{} }

func (failingHold) Grant() history.Event    { return history.Event{Token: 1} }
func (h failingHold) Done() <-chan struct{} { return h.done }
func (failingHold) Cause() history.Cause    { return history.GivenUp }
func (h failingHold) Release(context.Context) error {
	close(h.done)
	return nil
}

// An eventBuffer records the reported events.
type eventBuffer struct {
	mu     sync.Mutex   // guards what follows
	text   bytes.Buffer // what has not been read
	before []history.Event
}

func (h *eventBuffer) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(b)
}

// events returns the events of a kind.
func (h *eventBuffer) events(t *testing.T, kind history.Kind) []history.Event {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := h.text.Next(bytes.LastIndexByte(h.text.Bytes(), '\n') + 1)
	events, err := history.Read(bytes.NewReader(lines))
	require.NoError(t, err)
	h.before = append(h.before, events...)
	var of []history.Event
	for _, e := range h.before {
		if e.Kind == kind {
			of = append(of, e)
		}
	}
	return of
}

// startWorker starts a worker with two clients.
func startWorker(t *testing.T, library Library, register string) (out *eventBuffer, in *io.PipeWriter, over chan error) {
	t.Helper()
	return startWithTimeout(t, library, register, 4*time.Second)
}

// startWithTimeout is startWorker with a session timeout.
func startWithTimeout(t *testing.T, library Library, register string, timeout time.Duration) (out *eventBuffer, in *io.PipeWriter, over chan error) {
	t.Helper()
	spec, err := json.Marshal(Spec{
		Name: "c1.1", Paths: []string{"/a", "/b"}, Timeout: history.Instant(timeout), Began: clock.Start().Began, First: 1, Clients: 2,
		Register: register,
	})
	require.NoError(t, err)
	commands, in := io.Pipe()
	out, over = &eventBuffer{}, make(chan error, 1)
	go func() { over <- RunWith(library, string(spec), commands, out) }()
	t.Cleanup(func() { require.NoError(t, in.Close()) })
	return out, in, over
}

// stopAndClose sends the commands with which the harness ends a worker.
func stopAndClose(t *testing.T, in io.Writer) {
	t.Helper()
	_, err := io.WriteString(in, Stop+"\n"+Close+"\n")
	require.NoError(t, err)
}

func registersOf(t *testing.T) *register.Registers {
	t.Helper()
	r, err := register.New(clock.Start(), func(history.Event) {}, false)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func TestEveryClientIsGrantedLockOnceMoreBeforeItEnds(t *testing.T) {
	for _, broken := range []bool{false, true} {
		library := &failingLibrary{failed: make(chan struct{}), broken: broken}
		out, in, over := startWorker(t, library, registersOf(t).Addr())
		<-library.failed
		stopAndClose(t, in)
		for range 20 {
			select {
			case <-library.failed:
			case err := <-over:
				t.Fatalf("the worker has ended (%v) before a grant", err)
			}
		}
		require.Empty(t, out.events(t, history.Granted))
		library.works.Store(true)
		require.NoError(t, <-over)
		require.Len(t, out.events(t, history.Granted), 2, "one for each client")
		require.Len(t, out.events(t, history.Released), 2)
		asked := out.events(t, history.Asked)
		require.Equal(t, "lock", asked[len(asked)-1].Text, "without a timeout")
		if broken {
			require.Greater(t, library.made.Load(), int64(10), "a broken client is replaced")
		}
	}
}

func TestClientsStayConnectedUntilTheHarnessClosesThem(t *testing.T) {
	library := &failingLibrary{}
	library.works.Store(true)
	out, in, over := startWorker(t, library, registersOf(t).Addr())
	_, err := io.WriteString(in, Stop+"\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(out.events(t, history.Stopped)) > 0 }, time.Minute, time.Millisecond)
	require.Len(t, out.events(t, history.Released), len(out.events(t, history.Granted)), "everything is released")
	open := library.made.Load() - library.closed.Load()
	clock.Sleep(50 * time.Millisecond)
	require.Equal(t, int64(2), open)
	require.Equal(t, open, library.made.Load()-library.closed.Load())
	require.Empty(t, over)
	_, err = io.WriteString(in, Close+"\n")
	require.NoError(t, err)
	require.NoError(t, <-over)
	require.Equal(t, library.made.Load(), library.closed.Load())
	require.Len(t, out.events(t, history.Stopped), 1)
	require.Empty(t, out.events(t, history.Note))
}

func TestClientThatHasReleasedEverythingAndHasNodesIsReported(t *testing.T) {
	for deletes, timeout := range map[bool]time.Duration{false: 200 * time.Millisecond, true: 4 * time.Second} {
		library := &failingLibrary{deletes: deletes}
		library.works.Store(true)
		library.left.Store(1)
		out, in, over := startWithTimeout(t, library, registersOf(t).Addr(), timeout)
		stopAndClose(t, in)
		require.NoError(t, <-over)
		notes := out.events(t, history.Note)
		if deletes {
			require.Empty(t, notes)
			continue
		}
		require.Len(t, notes, 2, "one for each client")
		require.Equal(t, "a client that has released everything has 1 outstanding nodes", notes[0].Text)
		require.Equal(t, library.made.Load(), library.closed.Load())
	}
}

func TestContenderWithoutHarnessEndsImmediately(t *testing.T) {
	library := &failingLibrary{failed: make(chan struct{})}
	out, in, over := startWorker(t, library, registersOf(t).Addr())
	<-library.failed
	library.left.Store(1)
	require.NoError(t, in.Close())
	require.NoError(t, <-over)
	require.Empty(t, out.events(t, history.Granted))
	require.Empty(t, out.events(t, history.Note), "it looks for no node that is left")
}

func TestFailedRegisterWriteIsReportedOnce(t *testing.T) {
	gone, err := register.New(clock.Start(), func(history.Event) {}, false)
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	library := &failingLibrary{}
	library.works.Store(true)
	out, in, over := startWorker(t, library, gone.Addr())
	require.Eventually(t, func() bool { return len(out.events(t, history.Granted)) > 4 }, time.Minute, time.Millisecond)
	stopAndClose(t, in)
	require.NoError(t, <-over)
	notes := out.events(t, history.Note)
	require.Len(t, notes, 1)
	require.Contains(t, notes[0].Text, "write to the registers of /")
	require.Contains(t, notes[0].Text, "connection refused")
}

func TestClockThatDoesNotStepIsReported(t *testing.T) {
	var out bytes.Buffer
	p := &process{reporter: &reporter{out: &out}}
	p.step(time.Hour) // this program is not built with torture.BuildStepping
	require.Contains(t, out.String(), "step the wall clock by 1h0m0s")
}
