// SPDX-License-Identifier: Apache-2.0

package rawclient_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

const maxWait = time.Minute

// serve returns a client of a server that sends these frames and closes the connection.
func serve(t *testing.T, frames ...[]byte) *rawclient.Conn {
	t.Helper()
	near, far := net.Pipe()
	c := rawclient.New(near)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, f := range frames {
			if _, err := far.Write(f); err != nil {
				break // the client has read enough
			}
		}
		_ = far.Close()
	}()
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		<-done
	})
	return c
}

func reply(code wire.Code, fields func(w *wire.Writer)) []byte {
	w := wire.NewWriter()
	wire.ReplyHeader{Xid: 7, Zxid: 9, Err: code}.Put(w)
	if fields != nil {
		fields(w)
	}
	return w.Frame()
}

func TestEachRequestIsDecodedAsSent(t *testing.T) {
	create := wire.Create{Op: wire.OpCreate, Path: "/a", Data: []byte("x"), ACL: wire.World, Flags: wire.Ephemeral}
	create2, timed := create, create
	create2.Op = wire.OpCreate2
	timed.Op, timed.TTL = wire.OpCreateTTL, 1<<40
	for _, req := range []any{
		create, create2, timed,
		wire.Delete{Path: "/a", Version: 1},
		wire.SetData{Path: "/a", Version: -1},
		wire.SetData{Path: "/a", Data: []byte{}},
		wire.SetACL{Path: "/a", ACL: wire.World, Version: 2},
		wire.Check{Path: "/a", Version: 3},
		wire.Multi{Ops: []any{create, create2, wire.Check{Path: "/b"}}},
		wire.MultiRead{Ops: []any{wire.GetData{Path: "/a"}, wire.GetChildren{Path: "/b"}}},
		wire.Exists{Path: "/a", Watch: true},
		wire.GetData{Path: "/a"},
		wire.GetACL{Path: "/a"},
		wire.GetChildren{Path: "/a", Watch: true},
		wire.GetChildren{Path: "/a", WithStat: true},
		wire.Sync{Path: "/a"},
		wire.Ping{},
		wire.Auth{Scheme: "digest", Data: []byte("a:b")},
		wire.SetWatches{RelativeZxid: 5, Data: []string{"/a"}, Exist: []string{}, Child: []string{"/b", "/c"}},
		wire.SetWatches{Data: []string{}, Exist: []string{}, Child: []string{}, Persistent: []string{"/a"}, PersistentRecursive: []string{}},
		wire.AddWatch{Path: "/a", Mode: 1},
		wire.CheckWatches{Path: "/a", Type: 2},
		wire.RemoveWatches{Path: "/a", Type: 3},
		wire.GetEphemerals{Prefix: "/"},
		wire.GetAllChildrenNumber{Path: "/"},
		wire.WhoAmI{},
		wire.CloseSession{},
	} {
		r := wire.NewReader(rawclient.Request(42, req)[4:])
		header := wire.ReadHeader(r)
		require.Equal(t, wire.Header{Xid: 42, Op: rawclient.OpOf(req)}, header)
		read, err := wire.ReadRequest(header.Op, r)
		require.NoError(t, err, "%+v", req)
		require.Equal(t, req, read)
		require.Zero(t, r.Len())
	}
}

func TestRawRequestContainsWhatPutWrites(t *testing.T) {
	raw := rawclient.Raw{Op: 999, Put: func(w *wire.Writer) { w.Int32(-1) }}
	require.Equal(t, []byte{0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 3, 0xe7, 0xff, 0xff, 0xff, 0xff}, rawclient.Request(1, raw))
	require.Equal(t, []byte{0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 3, 0xe7}, rawclient.Request(1, rawclient.Raw{Op: 999}))
	require.Panics(t, func() { rawclient.OpOf("no request") })
}

func TestConnectReturnsEveryFieldOfReply(t *testing.T) {
	near, far := net.Pipe()
	c := rawclient.New(near)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	asked := wire.ConnectRequest{Timeout: 4000, Password: make([]byte, 16), KnowsReadOnly: true}
	got := make(chan []byte, 1)
	go func() {
		frame := make([]byte, len(asked.Frame()))
		n, _ := far.Read(frame)
		got <- frame[:n]
		_, _ = far.Write(wire.ConnectReply{Timeout: 2000, Session: 5, Password: []byte("secret"), KnowsReadOnly: true}.Frame())
	}()
	answer, err := c.Connect(asked, maxWait)
	require.NoError(t, err)
	require.Equal(t, asked.Frame(), <-got)
	readOnly := false
	require.Equal(t, rawclient.ConnectReply{Timeout: 2000, Session: 5, Password: []byte("secret"), ReadOnly: &readOnly}, answer)
}

func TestRepliesAndEventsArriveInOrder(t *testing.T) {
	c := serve(t, wire.EventFrame(wire.EventNodeDeleted, "/a"), reply(wire.OK, func(w *wire.Writer) { w.String("/a") }), reply(wire.NoNode, nil))
	event, err := c.Next(maxWait)
	require.NoError(t, err)
	require.True(t, event.IsEvent())
	decoded, err := event.Event()
	require.NoError(t, err)
	require.Equal(t, rawclient.Event{Type: wire.EventNodeDeleted, State: wire.StateSyncConnected, Path: "/a"}, decoded)

	created, err := c.Next(maxWait)
	require.NoError(t, err)
	require.False(t, created.IsEvent())
	require.Equal(t, wire.ReplyHeader{Xid: 7, Zxid: 9}, created.ReplyHeader)
	body, err := created.Reply(wire.OpCreate)
	require.NoError(t, err)
	path := "/a"
	require.Equal(t, rawclient.Reply{Path: &path}, body)

	refused, err := c.Next(maxWait)
	require.NoError(t, err)
	require.Equal(t, wire.NoNode, refused.Err)
	body, err = refused.Reply(wire.OpCreate)
	require.NoError(t, err)
	require.Equal(t, rawclient.Reply{}, body)

	_, err = c.Next(maxWait)
	require.ErrorIs(t, err, rawclient.ErrEnded)
}

func TestReplyReportsMissingAndTrailingBytes(t *testing.T) {
	stat := wire.Stat{Czxid: 1, Mzxid: 2, Version: 3}
	c := serve(t,
		reply(wire.OK, func(w *wire.Writer) { w.Bytes(nil); stat.Put(w) }),
		reply(wire.OK, func(w *wire.Writer) { w.Int32(-1) }),
		reply(wire.OK, func(w *wire.Writer) { stat.Put(w); w.Int32(0) }),
		reply(wire.OK, func(w *wire.Writer) { w.String("/a") }),
	)
	next := func(op wire.Op) (rawclient.Reply, error) {
		p, err := c.Next(maxWait)
		require.NoError(t, err)
		return p.Reply(op)
	}
	r, err := next(wire.OpGetData)
	require.NoError(t, err)
	require.Nil(t, *r.Data)
	require.Equal(t, stat, *r.Stat)
	r, err = next(wire.OpGetChildren)
	require.NoError(t, err)
	require.Nil(t, *r.Names)
	r, err = next(wire.OpExists)
	require.NoError(t, err)
	require.Equal(t, 4, r.Trailing)
	_, err = next(wire.OpExists)
	require.ErrorIs(t, err, wire.ErrShort)
}

func TestMultiReplyIsDecodedPerOperation(t *testing.T) {
	c := serve(t, reply(wire.OK, func(w *wire.Writer) {
		wire.PutMultiHeader(w, wire.OpCreate, false, wire.OK)
		w.String("/a")
		wire.PutMultiHeader(w, wire.OpDelete, false, wire.OK)
		wire.PutMultiHeader(w, wire.OpError, false, wire.NoNode)
		w.Int32(int32(wire.NoNode))
		wire.PutMultiHeader(w, wire.OpError, true, -1)
	}))
	p, err := c.Next(maxWait)
	require.NoError(t, err)
	r, err := p.Reply(wire.OpMulti)
	require.NoError(t, err)
	path, code := "/a", wire.NoNode
	require.Equal(t, []rawclient.Result{
		{Op: wire.OpCreate, Reply: rawclient.Reply{Path: &path}},
		{Op: wire.OpDelete},
		{Op: wire.OpError, Code: wire.NoNode, Reply: rawclient.Reply{Code: &code}},
	}, *r.Results)
}

func TestSilentServerIsDistinguishedFromClosedConnection(t *testing.T) {
	near, far := net.Pipe()
	c := rawclient.New(near)
	_, err := c.Next(time.Millisecond)
	require.ErrorIs(t, err, rawclient.ErrSilent)
	require.NoError(t, far.Close())
	_, err = c.Next(maxWait)
	require.ErrorIs(t, err, rawclient.ErrEnded)
	require.NoError(t, c.Close())
}

func TestInvalidFrameIsAnError(t *testing.T) {
	_, err := serve(t, []byte{0x7f, 0xff, 0xff, 0xff}).Next(maxWait)
	require.ErrorContains(t, err, "2147483647 bytes")
	_, err = serve(t, []byte{0, 0, 0, 2, 0, 0}).Next(maxWait)
	require.ErrorIs(t, err, wire.ErrShort)
	_, err = serve(t, []byte{0, 0, 0, 9, 0, 0}).Next(maxWait)
	require.ErrorIs(t, err, rawclient.ErrEnded)
}

func TestTextReadsUntilConnectionEnds(t *testing.T) {
	text, err := serve(t, []byte("im"), []byte("ok")).Text(maxWait)
	require.NoError(t, err)
	require.Equal(t, "imok", text)
}
