// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A player is one connection.
type player struct {
	s        *stage
	name     string
	conn     *rawclient.Conn
	xid      int32
	sent     map[int32]wire.Op // what was asked under each xid
	session  int64
	password []byte
	events   int  // that came
	ended    bool // the connection
	closed   bool // the session
	dumb     bool // it does not take part in settling
	quiet    bool // the bodies of its replies are not written down
}

func (p *player) speaks() bool { return p.session != 0 && !p.ended && !p.dumb }

// connect opens a session of so many milliseconds.
func (p *player) connect(timeout int32) {
	p.handshake(wire.ConnectRequest{Timeout: timeout, Password: make([]byte, 16), KnowsReadOnly: true})
}

// attach takes up a session again. The one who had it is left without.
func (p *player) attach(other *player) {
	p.handshake(wire.ConnectRequest{
		Timeout: longest, Session: other.session, Password: other.password, KnowsReadOnly: true, LastZxid: p.s.last,
	})
	if p.session != 0 {
		other.closed = true // that is up to p now
	}
}

// handshake sends any first frame and writes down what comes of it.
func (p *player) handshake(req wire.ConnectRequest) {
	readOnly := "unmentioned"
	if req.KnowsReadOnly {
		readOnly = fmt.Sprint(req.ReadOnly)
	}
	p.s.add("%s connects protocol=%d session=%s readOnly=%s", p.name, req.Protocol, p.s.transcript.session(req.Session), readOnly)
	reply, err := p.conn.Connect(req, p.s.patience)
	if err != nil {
		p.end(err)
		return
	}
	answered := "unmentioned"
	if reply.ReadOnly != nil {
		answered = fmt.Sprint(*reply.ReadOnly)
	}
	p.s.add("%s connected protocol=%d session=%s timeout=%s readOnly=%s password of %d bytes", p.name, reply.Protocol,
		p.s.transcript.session(reply.Session), p.s.timeout(req.Timeout, reply.Timeout), answered, len(reply.Password))
	p.session, p.password = reply.Session, reply.Password
	p.s.settle()
}

// do sends a request, waits for the reply, and settles.
func (p *player) do(req any) rawclient.Packet {
	reply := p.ask(req)
	p.s.settle()
	return reply
}

// ask sends a request and waits for the reply, but not for what comes of it.
func (p *player) ask(req any) rawclient.Packet {
	if secret, ok := req.(hidden); ok {
		req, p.quiet = secret.request, true
		defer func() { p.quiet = false }()
	}
	p.s.add("%s> %s", p.name, describe(req))
	xid := p.next()
	switch req.(type) {
	case wire.Auth:
		xid = wire.XidAuth
	case wire.Ping:
		xid = wire.XidPing
	case wire.SetWatches:
		xid = wire.XidSetWatches
	}
	p.post(xid, req)
	reply, answered := p.until(xid)
	if answered && xid == wire.XidPing {
		p.s.add("%s< %s", p.name, p.s.packet(reply, wire.OpPing))
	}
	return reply
}

// pipeline sends requests in one write and reads all the replies.
func (p *player) pipeline(reqs ...any) {
	var frames [][]byte
	for _, req := range reqs {
		p.s.add("%s> %s", p.name, describe(req))
		frames = append(frames, p.frame(p.next(), req))
	}
	p.send(frames...)
	p.until(p.xid - 1)
	p.s.settle()
}

func (p *player) next() int32 {
	p.xid++
	return p.xid - 1
}

func (p *player) frame(xid int32, req any) []byte {
	p.expect(xid, rawclient.OpOf(req))
	return rawclient.Request(xid, req)
}

func (p *player) post(xid int32, req any) { p.send(p.frame(xid, req)) }

// send ignores that the connection may have ended: reading will tell.
func (p *player) send(frames ...[]byte) { _ = p.conn.Send(frames...) }

// until reads and writes down what comes, up to the reply to xid. It is false when the connection ends before.
func (p *player) until(xid int32) (rawclient.Packet, bool) {
	for !p.ended {
		got, ok := p.read()
		if ok && got.Xid == xid {
			return got, true
		}
	}
	return rawclient.Packet{}, false
}

// read reads and writes down one packet.
func (p *player) read() (rawclient.Packet, bool) {
	got, err := p.conn.Next(p.s.patience)
	switch {
	case err != nil:
		p.end(err)
		return got, false
	case got.IsEvent():
		p.events++
		p.s.add("%s! %s", p.name, p.s.event(got))
		p.s.closeRun(p.name)
		return got, true
	}
	op, known := p.sent[got.Xid]
	if got.Xid == wire.XidPing && len(got.Body) == 0 { // see settle
		return got, true
	}
	if got.Zxid > 0 {
		p.s.last = got.Zxid
	}
	if !known {
		p.s.add("%s< reply to a request with xid %d that nobody sent", p.name, got.Xid)
		return got, true
	}
	if p.quiet {
		p.s.add("%s< %s %v", p.name, p.s.zxid(got.Zxid), got.Err)
		return got, true
	}
	p.s.add("%s< %s", p.name, p.s.packet(got, op))
	return got, true
}

// expect says what a reply to xid will be the reply to, for those that are sent by hand.
func (p *player) expect(xid int32, op wire.Op) {
	if p.sent == nil {
		p.sent = map[int32]wire.Op{}
	}
	p.sent[xid] = op
}

// skim writes down all that comes before the answer to a ping or the end of the connection.
func (p *player) skim() {
	p.post(wire.XidPing, wire.Ping{})
	for !p.ended {
		got, ok := p.read()
		if ok && got.Xid == wire.XidPing && len(got.Body) == 0 {
			break
		}
	}
	p.s.settle()
}

// greeting reads the answer to a first frame that was sent by hand.
func (p *player) greeting() {
	frame, err := p.conn.Frame(p.s.patience)
	if err != nil {
		p.end(err)
		return
	}
	p.s.add("%s< %d bytes of greeting", p.name, len(frame))
	reply, err := wire.ReadConnectReply(frame)
	if err == nil {
		p.session, p.password = reply.Session, reply.Password
	}
}

// awaitEvents reads until so many events have come on this connection, and settles.
func (p *player) awaitEvents(n int) {
	for !p.ended && p.events < n {
		p.read()
	}
	p.s.settle()
}

// awaitEnd reads until the server ends the connection.
func (p *player) awaitEnd() {
	for !p.ended {
		p.read()
	}
	p.s.settle()
}

func (p *player) end(err error) {
	p.ended = true
	switch {
	case errors.Is(err, rawclient.ErrEnded):
		p.s.add("%s- the connection has ended", p.name)
	case errors.Is(err, rawclient.ErrSilent):
		p.s.add("%s- no answer", p.name)
	default:
		p.s.add("%s- %v", p.name, err)
	}
	_ = p.conn.Close()
}

// hangUp ends the connection from this side. The session goes on. It waits until the server has seen it: ZooKeeper
// forgets a connection together with the session that it last had, though that may be attached elsewhere by then.
func (p *player) hangUp() {
	p.s.t.Helper()
	p.s.add("%s hangs up", p.name)
	p.ended = true
	_ = p.conn.Close()
	id := fmt.Sprintf("sid=0x%x,", uint64(p.session)) //nolint:gosec // as the server prints it
	require.Eventually(p.s.t, func() bool { return !strings.Contains(p.s.on.word(p.s.t, "cons"), id) }, enough, time.Millisecond)
}

// bye closes the session in order.
func (p *player) bye() {
	p.closed = true
	p.do(wire.CloseSession{})
	p.awaitEnd()
}

// leave ends the session, whatever became of its connection, so that it does not end later, in another scenario.
func (p *player) leave() {
	if p.closed || p.session == 0 {
		p.ended = true
		_ = p.conn.Close()
		return
	}
	if !p.ended {
		p.bye()
		return
	}
	p.closed = true
	heir := p.s.stranger("heir of " + p.name)
	heir.attach(p)
	if heir.session == p.session {
		heir.bye()
	}
}

// removeQuietly deletes nodes that may be there.
func (p *player) removeQuietly(paths ...string) {
	for _, path := range paths {
		p.do(hidden{deletion(path, -1)})
	}
}

// remove deletes a node and all below it.
func (p *player) remove(path string) {
	p.s.t.Helper()
	reply := p.do(names(path))
	require.False(p.s.t, p.ended, "%s: cannot remove %s", p.s.on.name, path)
	if reply.Err == wire.NoNode {
		return
	}
	if reply.Err == wire.OK { // else it may be deleted all the same
		body, err := reply.Reply(wire.OpGetChildren)
		require.NoError(p.s.t, err)
		for _, name := range *body.Names {
			p.remove(path + "/" + name)
		}
	}
	gone := p.do(deletion(path, -1))
	require.Contains(p.s.t, []wire.Code{wire.OK, wire.NoNode}, gone.Err, "%s: cannot remove %s", p.s.on.name, path)
}

// hidden is a request whose answer is not written down: it tells what is different on every server.
type hidden struct{ request any }
