// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"context"
	"encoding/binary"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

const maxWait = time.Minute

// dialRaw connects in memory, and sends nothing.
func dialRaw(t *testing.T, e *zktest.Ensemble) *rawclient.Conn {
	t.Helper()
	conn, err := e.Dial(context.Background(), "tcp", e.Addrs()[0])
	require.NoError(t, err)
	c := rawclient.New(conn)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// handshake is the first frame of a connection, for a new session.
var handshake = wire.ConnectRequest{Timeout: 4000, Password: make([]byte, 16)}

// newSession sends a handshake for a new session.
func newSession(t *testing.T, c *rawclient.Conn) {
	t.Helper()
	reply, err := c.Connect(handshake, maxWait)
	require.NoError(t, err)
	require.NotZero(t, reply.Session)
}

// request returns a frame with these fields after the header.
func request(xid int32, op wire.Op, fields func(w *wire.Writer)) []byte {
	w := wire.NewWriter()
	w.Int32(xid)
	w.Int32(int32(op))
	if fields != nil {
		fields(w)
	}
	return w.Frame()
}

// FuzzFrames sends arbitrary bytes after a valid handshake, or instead of it. The server
// answers or closes the connection; it neither crashes nor stops serving other clients.
func FuzzFrames(f *testing.F) {
	path := func(w *wire.Writer) { w.String("/a"); w.Bool(true) }
	for _, seed := range [][]byte{
		{},
		[]byte("ruok"),
		[]byte("GET / HTTP/1.1\r\n\r\n"),
		{0xff, 0xff, 0xff, 0xff},
		{0x7f, 0xff, 0xff, 0xff, 1},
		{0, 0, 0, 0},
		{0, 0, 0, 8, 0, 0},
		handshake.Frame(),
		request(1, wire.OpGetData, path),
		request(1, wire.OpPing, nil),
		request(1, wire.OpCloseSession, nil),
		request(1, 999, nil),
		request(1, wire.OpSetWatches, func(w *wire.Writer) { w.Int64(0); w.Int32(1 << 30) }),
		request(1, wire.OpCreate, func(w *wire.Writer) { w.String("/a"); w.Int32(-2) }),
		request(1, wire.OpCreate, func(w *wire.Writer) { w.String("/f-"); w.Bytes(nil); wire.PutACL(w, wire.World); w.Int32(3) }),
		request(1, wire.OpMulti, func(w *wire.Writer) { wire.PutMultiHeader(w, wire.OpDelete, false, -1); w.String("/") }),
		request(1, wire.OpMulti, func(w *wire.Writer) { wire.PutMultiHeader(w, wire.OpMulti, false, -1) }),
		request(1, wire.OpAuth, func(w *wire.Writer) { w.Int32(0); w.String("digest"); w.Bytes([]byte("a:b")) }),
	} {
		f.Add(true, seed)
		f.Add(false, seed)
	}
	e, err := zktest.Run(context.Background(), &zktest.Options{InMemory: true})
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, e.Close()) })
	f.Fuzz(func(t *testing.T, greeted bool, sent []byte) {
		stranger := dialRaw(t, e)
		if greeted {
			newSession(t, stranger)
		}
		_ = stranger.Send(sent) // the server may have closed the connection
		_ = stranger.Close()

		other := dialRaw(t, e)
		newSession(t, other)
		require.NoError(t, other.Send(request(1, wire.OpExists, path), request(2, wire.OpCloseSession, nil)))
		p, err := other.Next(maxWait)
		require.NoError(t, err)
		require.Equal(t, int32(1), p.Xid)
	})
}

func TestUnreadableFrameEndsConnection(t *testing.T) {
	e := zktest.Start(t, &zktest.Options{InMemory: true})
	for name, sent := range map[string][]byte{
		"a negative length":              {0xff, 0xff, 0xff, 0xfe},
		"a length beyond the limit":      {0x00, 0x10, 0x00, 0x00},
		"an empty frame":                 {0, 0, 0, 0},
		"a request without an operation": {0, 0, 0, 4, 0, 0, 0, 1},
		"a request that ends early":      request(1, wire.OpGetData, func(w *wire.Writer) { w.Int32(100) }),
		"a string of negative length":    request(1, wire.OpGetData, func(w *wire.Writer) { w.Int32(-7) }),
		"a vector that cannot fit":       request(1, wire.OpSetWatches, func(w *wire.Writer) { w.Int64(0); w.Int32(1 << 30) }),
	} {
		t.Run(name, func(t *testing.T) {
			c := dialRaw(t, e)
			newSession(t, c)
			require.NoError(t, c.Send(sent))
			for {
				_, err := c.Frame(maxWait)
				if err != nil {
					require.ErrorIs(t, err, rawclient.ErrEnded)
					return
				}
			}
		})
	}
}

// The server allocates memory for received bytes, not for announced ones: 300 connections
// that each announce a megabyte and send ten bytes of it take less than 128 KiB each.
func TestAnnouncedLengthTakesNoMemory(t *testing.T) {
	e := zktest.Start(t, &zktest.Options{InMemory: true})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const strangers = 300
	for range strangers {
		conn, err := e.Dial(context.Background(), "tcp", e.Addrs()[0])
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = conn.Write(append(binary.BigEndian.AppendUint32(nil, 1<<20-1), make([]byte, 10)...))
		require.NoError(t, err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(strangers*128<<10))
}

func TestFourLetterWordIsAnsweredAndConnectionEnds(t *testing.T) {
	e := zktest.Start(t, &zktest.Options{InMemory: true})
	conn, err := e.Dial(context.Background(), "tcp", e.Addrs()[0])
	require.NoError(t, err)
	_, err = conn.Write([]byte("ruok"))
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "imok", string(answer))
}
