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

// A client is one connection.
type client struct {
	run           *run
	name          string
	conn          *rawclient.Conn
	xid           int32
	sent          map[int32]wire.Op // the operation sent with each xid
	session       int64
	password      []byte
	events        int  // received
	ended         bool // the connection has ended
	sessionClosed bool // the session is closed, or belongs to another client
	noPings       bool // settle leaves it out
	hideReplies   bool // the bodies of its replies are not recorded
}

func (p *client) answersPings() bool { return p.session != 0 && !p.ended && !p.noPings }

// connect opens a session with that timeout in milliseconds.
func (p *client) connect(timeout int32) {
	p.handshake(wire.ConnectRequest{Timeout: timeout, Password: make([]byte, 16), KnowsReadOnly: true})
}

// attach attaches to the session of another client, which loses it.
func (p *client) attach(other *client) { p.attachFor(other, sessionTimeout) }

// attachFor is attach with another session timeout, in milliseconds.
func (p *client) attachFor(other *client, timeout int32) {
	p.handshake(wire.ConnectRequest{
		Timeout: timeout, Session: other.session, Password: other.password, KnowsReadOnly: true, LastZxid: p.run.lastZxid,
	})
	if p.session != 0 {
		other.sessionClosed = true // p closes it now
	}
}

// handshake sends a first frame and records the result.
func (p *client) handshake(req wire.ConnectRequest) {
	readOnly := "absent"
	if req.KnowsReadOnly {
		readOnly = fmt.Sprint(req.ReadOnly)
	}
	p.run.add("%s connects protocol=%d session=%s readOnly=%s", p.name, req.Protocol, p.run.transcript.session(req.Session), readOnly)
	reply, err := p.conn.Connect(req, p.run.patience)
	if err != nil {
		p.end(err)
		return
	}
	answered := "absent"
	if reply.ReadOnly != nil {
		answered = fmt.Sprint(*reply.ReadOnly)
	}
	p.run.add("%s connected protocol=%d session=%s timeout=%s readOnly=%s password of %d bytes", p.name, reply.Protocol,
		p.run.transcript.session(reply.Session), p.run.timeout(req.Timeout, reply.Timeout), answered, len(reply.Password))
	p.session, p.password = reply.Session, reply.Password
	p.run.settle()
}

// do sends a request, waits for the reply, and settles.
func (p *client) do(req any) rawclient.Packet {
	reply := p.ask(req)
	p.run.settle()
	return reply
}

// ask sends a request and waits for the reply, but not for other effects of the request.
func (p *client) ask(req any) rawclient.Packet {
	if h, ok := req.(hidden); ok {
		req, p.hideReplies = h.request, true
		defer func() { p.hideReplies = false }()
	}
	p.run.add("%s> %s", p.name, describe(req))
	xid := p.next()
	switch req.(type) {
	case wire.Auth:
		xid = wire.XidAuth
	case wire.Ping:
		xid = wire.XidPing
	case wire.SetWatches:
		xid = wire.XidSetWatches
	}
	p.sendRequest(xid, req)
	reply, answered := p.readUntil(xid)
	if answered && xid == wire.XidPing {
		p.run.add("%s< %s", p.name, p.run.packet(reply, wire.OpPing))
	}
	return reply
}

// pipeline sends requests in one write and reads all the replies.
func (p *client) pipeline(reqs ...any) {
	var frames [][]byte
	for _, req := range reqs {
		p.run.add("%s> %s", p.name, describe(req))
		frames = append(frames, p.frame(p.next(), req))
	}
	p.send(frames...)
	p.readUntil(p.xid - 1)
	p.run.settle()
}

func (p *client) next() int32 {
	p.xid++
	return p.xid - 1
}

func (p *client) frame(xid int32, req any) []byte {
	p.expect(xid, rawclient.OpOf(req))
	return rawclient.Request(xid, req)
}

func (p *client) sendRequest(xid int32, req any) { p.send(p.frame(xid, req)) }

// send ignores errors: if the connection has ended, reading reports it.
func (p *client) send(frames ...[]byte) { _ = p.conn.Send(frames...) }

// readUntil reads and records packets up to the reply to xid. It reports false if the connection ends before.
func (p *client) readUntil(xid int32) (rawclient.Packet, bool) {
	for !p.ended {
		got, ok := p.read()
		if ok && got.Xid == xid {
			return got, true
		}
	}
	return rawclient.Packet{}, false
}

// read reads and records one packet.
func (p *client) read() (rawclient.Packet, bool) {
	got, err := p.conn.Next(p.run.patience)
	switch {
	case err != nil:
		p.end(err)
		return got, false
	case got.IsEvent():
		p.events++
		p.run.add("%s! %s", p.name, p.run.event(got))
		p.run.sortEvents(p.name)
		return got, true
	}
	op, known := p.sent[got.Xid]
	if got.Xid == wire.XidPing && len(got.Body) == 0 { // see settle
		return got, true
	}
	if got.Zxid > 0 {
		p.run.lastZxid = got.Zxid
	}
	if !known {
		p.run.add("%s< reply with xid %d to no request", p.name, got.Xid)
		return got, true
	}
	if p.hideReplies {
		p.run.add("%s< %s %v", p.name, p.run.zxid(got.Zxid), got.Err)
		return got, true
	}
	p.run.add("%s< %s", p.name, p.run.packet(got, op))
	return got, true
}

// expect registers the operation of a request with that xid, for requests that send sends as frames.
func (p *client) expect(xid int32, op wire.Op) {
	if p.sent == nil {
		p.sent = map[int32]wire.Op{}
	}
	p.sent[xid] = op
}

// readRest records all packets before the answer to a ping or the end of the connection.
func (p *client) readRest() {
	p.sendRequest(wire.XidPing, wire.Ping{})
	for !p.ended {
		got, ok := p.read()
		if ok && got.Xid == wire.XidPing && len(got.Body) == 0 {
			break
		}
	}
	p.run.settle()
}

// readHandshakeReply reads the answer to a first frame that send has sent.
func (p *client) readHandshakeReply() {
	frame, err := p.conn.Frame(p.run.patience)
	if err != nil {
		p.end(err)
		return
	}
	p.run.add("%s< handshake reply of %d bytes", p.name, len(frame))
	reply, err := wire.ReadConnectReply(frame)
	if err == nil {
		p.session, p.password = reply.Session, reply.Password
	}
}

// awaitEvents reads until this connection has received n events in total, and settles.
func (p *client) awaitEvents(n int) {
	for !p.ended && p.events < n {
		p.read()
	}
	p.run.settle()
}

// awaitEnd reads until the server ends the connection.
func (p *client) awaitEnd() {
	for !p.ended {
		p.read()
	}
	p.run.settle()
}

func (p *client) end(err error) {
	p.ended = true
	switch {
	case errors.Is(err, rawclient.ErrEnded):
		p.run.add("%s- the connection has ended", p.name)
	case errors.Is(err, rawclient.ErrSilent):
		p.run.add("%s- no answer", p.name)
	default:
		p.run.add("%s- %v", p.name, err)
	}
	_ = p.conn.Close()
}

// disconnect ends the connection from the client's side. The session lives on. It waits until the server has noticed,
// because ZooKeeper drops a connection together with the session that it last had, even if that session is attached
// elsewhere by then.
func (p *client) disconnect() {
	p.run.t.Helper()
	p.run.add("%s disconnects", p.name)
	p.ended = true
	_ = p.conn.Close()
	id := fmt.Sprintf("sid=0x%x,", uint64(p.session)) //nolint:gosec // as the server prints it
	require.Eventually(p.run.t, func() bool { return !strings.Contains(p.run.server.word(p.run.t, "cons"), id) }, maxWait, time.Millisecond)
}

// closeSession closes the session with a request, and waits for the end of the connection.
func (p *client) closeSession() {
	p.sessionClosed = true
	p.do(wire.CloseSession{})
	p.awaitEnd()
}

// endSession ends the session, even if its connection has ended, so that it does not end later, in another scenario.
func (p *client) endSession() {
	if p.sessionClosed || p.session == 0 {
		p.ended = true
		_ = p.conn.Close()
		return
	}
	if !p.ended {
		p.closeSession()
		return
	}
	p.sessionClosed = true
	successor := p.run.dial("successor of " + p.name)
	successor.attach(p)
	if successor.session == p.session {
		successor.closeSession()
	}
}

// removeQuietly deletes nodes that may exist.
func (p *client) removeQuietly(paths ...string) {
	for _, path := range paths {
		p.do(hidden{deletion(path, -1)})
	}
}

// remove deletes a node and all below it.
func (p *client) remove(path string) {
	p.run.t.Helper()
	reply := p.do(names(path))
	require.False(p.run.t, p.ended, "%s: cannot remove %s", p.run.server.name, path)
	if reply.Err == wire.NoNode {
		return
	}
	if reply.Err == wire.OK { // otherwise the node may still be deletable
		body, err := reply.Reply(wire.OpGetChildren)
		require.NoError(p.run.t, err)
		for _, name := range *body.Names {
			p.remove(path + "/" + name)
		}
	}
	gone := p.do(deletion(path, -1))
	require.Contains(p.run.t, []wire.Code{wire.OK, wire.NoNode}, gone.Err, "%s: cannot remove %s", p.run.server.name, path)
}

// hidden is a request whose answer is not recorded, because it differs from server to server.
type hidden struct{ request any }
