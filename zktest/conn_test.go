// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/zktest"
	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

func TestDialOnHeldLinkEndsWithEnsemble(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e, err := zktest.Run(t.Context(), &zktest.Options{InMemory: true})
		require.NoError(t, err)
		l := e.Link()
		l.Hold(zktest.ToClient)
		done := make(chan error, 1)
		go func() {
			_, err := l.Dial(context.Background(), "tcp", e.Addrs()[0])
			done <- err
		}()
		time.Sleep(time.Minute)
		require.Empty(t, done, "a dial needs both directions")
		require.NoError(t, e.Close())
		require.Error(t, <-done)
	})
}

func TestHeldLinkHidesKillOfServer(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		c := connect(t, e, timeout)
		c.link.Hold(zktest.Both)
		began := time.Now()
		require.NoError(t, e.Server(1).Kill(t.Context()))
		waitFor(t, "the client gives up on the server", func() bool { return !c.since(zk.StateDisconnected, began).IsZero() })
		require.Greater(t, c.since(zk.StateDisconnected, began).Sub(began), time.Second)
		c.link.Release()
		require.NoError(t, e.Server(1).Start(t.Context()))
	})
}

func TestReplySentBeforeLossArrives(t *testing.T) {
	for range 50 {
		e := zktest.Start(t, &zktest.Options{InMemory: true})
		l := e.Link()
		conn, err := l.Dial(t.Context(), "tcp", e.Addrs()[0])
		require.NoError(t, err)
		c := rawclient.New(conn)
		newSession(t, c)
		l.LoseRequest(2)
		root := func(w *wire.Writer) { w.String("/"); w.Bool(false) }
		require.NoError(t, c.Send(request(1, wire.OpExists, root), request(2, wire.OpExists, root)))
		p, err := c.Next(maxWait)
		require.NoError(t, err)
		require.Equal(t, int32(1), p.Xid)
		_, err = c.Next(maxWait)
		require.ErrorIs(t, err, rawclient.ErrEnded)
		require.NoError(t, c.Close())
	}
}

func TestTrapBeforeFrameWinsOverTrapAfterIt(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		c := connect(t, e, timeout)
		before, after := e.LoseRequest(1), c.link.LoseReply(1)
		_, err := c.Create("/lost", nil, 0, zk.WorldACL(zk.PermAll))
		require.Error(t, err)
		require.True(t, before.Sprung() && after.Sprung())
		_, _, err = e.Get("/lost")
		require.ErrorIs(t, err, zktest.ErrNoNode)
	})
}

// A callingHandler calls the ensemble for each record.
type callingHandler struct {
	slog.Handler
	call func()
}

func (callingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (c callingHandler) Handle(context.Context, slog.Record) error {
	c.call()
	return nil
}

func TestLoggerMayCallEnsemble(t *testing.T) {
	var e *zktest.Ensemble
	zxids := make(chan int64, 10)
	logger := slog.New(callingHandler{slog.DiscardHandler, func() { zxids <- e.Zxid() }})
	e = zktest.Start(t, &zktest.Options{InMemory: true, Logger: logger})
	c := dialRaw(t, e)
	newSession(t, c)
	require.NoError(t, c.Send([]byte{0xff, 0xff, 0xff, 0xfe}))
	require.Equal(t, int64(1), <-zxids)
}

func TestIncompleteFrameIsLogged(t *testing.T) {
	for name, sent := range map[string][]byte{"half a length": {0, 0}, "a length": {0, 0, 0, 50}, "half a frame": {0, 0, 0, 50, 1}} {
		t.Run(name, func(t *testing.T) {
			var logged bytes.Buffer
			e, err := zktest.Run(t.Context(), &zktest.Options{InMemory: true, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
			require.NoError(t, err)
			c := dialRaw(t, e)
			newSession(t, c)
			require.NoError(t, c.Send(sent))
			require.NoError(t, c.Close())
			waitFor(t, "the connection is gone", func() bool {
				sessions := e.Sessions()
				return len(sessions) == 0 || !sessions[0].Attached // it may have expired
			})
			require.NoError(t, e.Close())
			require.Contains(t, logged.String(), "unexpected EOF")
		})
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestRequestsWaitingForLeaderAreBounded(t *testing.T) {
	e := zktest.Start(t, &zktest.Options{InMemory: true, Servers: 3, SyncLimit: 1000})
	require.NoError(t, e.Create("/a", nil))
	conn, err := e.Dial(t.Context(), "tcp", e.Server(2).Addr())
	require.NoError(t, err)
	c := rawclient.New(conn)
	newSession(t, c)
	require.NoError(t, e.Server(2).Isolate(t.Context()))
	before := heap()
	frame := request(1, wire.OpSetData, func(w *wire.Writer) { w.String("/a"); w.Bytes(make([]byte, 1<<20-1000)); w.Int32(-1) })
	var sending sync.WaitGroup
	sending.Go(func() {
		for range 100 {
			if c.Send(frame) != nil {
				return // the test has ended
			}
		}
	})
	waitFor(t, "the server stops reading", func() bool {
		seen := heap()
		time.Sleep(50 * time.Millisecond)
		return heap()-seen < 1<<20
	})
	require.Less(t, heap()-before, int64(32<<20))
	require.NoError(t, c.Close())
	sending.Wait()
}

func TestReplyBeyondBoundEndsConnection(t *testing.T) {
	e := zktest.Start(t, &zktest.Options{InMemory: true})
	require.NoError(t, e.Create("/a", make([]byte, 1<<20-1000)))
	c := dialRaw(t, e)
	newSession(t, c)
	require.NoError(t, c.Send(request(1, wire.OpMultiRead, func(w *wire.Writer) {
		for range 10_000 {
			wire.PutMultiHeader(w, wire.OpGetData, false, -1)
			w.String("/a")
			w.Bool(false)
		}
		wire.PutMultiHeader(w, wire.OpError, true, -1)
	})))
	_, err := c.Frame(maxWait)
	require.ErrorIs(t, err, rawclient.ErrEnded)
}
