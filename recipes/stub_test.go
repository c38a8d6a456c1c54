// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/internal/wiretest"
)

// The requests that a stub understands.
const (
	opConnect     = 0 // no operation of the protocol: the handshake, to a script
	opCreate      = wiretest.Create
	opDelete      = wiretest.Delete
	opGetData     = wiretest.GetData
	opSetData     = wiretest.SetData
	opPing        = wiretest.Ping
	opGetChildren = wiretest.GetChildren
	opCheck       = wiretest.Check
	opMulti       = wiretest.Multi
	opContainer   = wiretest.Container
	opSetAuth     = wiretest.SetAuth
	opSetWatches  = wiretest.SetWatches
	opClose       = wiretest.Close
	opError       = wiretest.Failed
)

const (
	codeNoNode     = wiretest.NoNode
	codeNoAuth     = wiretest.NoAuth
	codeBadVersion = wiretest.BadVersion
	codeNodeExists = wiretest.NodeExists
	codeNotEmpty   = wiretest.NotEmpty
	codeExpired    = wiretest.Expired
	codeAuthFailed = wiretest.AuthFailed
	codeNameless   = wiretest.Nameless
	codeUndone     = wiretest.Undone
)

const stubTimeout = wiretest.Timeout

func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	wiretest.Bubble(t, test)
}

// A verdict is what the stub does with a request.
type verdict int

const (
	answer    verdict = iota
	ignore            // neither carried out nor answered
	lose              // carried out, and never answered
	cutBefore         // the connection ends before it is carried out
	cutAfter          // the connection ends in place of the answer
	deny              // answered as wrong credentials are, and the connection ends
	forbid            // answered as what its sender has no permission for
	puzzle            // answered with a code that the client has no name for
)

type stubOp struct {
	kind           int32
	path           string
	data           []byte
	flags, version int32
	watch          bool
}

// A stubRequest is a request that a script decides on.
type stubRequest struct {
	at      time.Time
	server  string
	session int64 // of a handshake: that is asked for
	op      int32
	ops     []stubOp // of a transaction; otherwise one, where op has a path
}

// heartbeat reports whether it is a transaction that only checks.
func (r stubRequest) heartbeat() bool {
	return r.op == opMulti && !slices.ContainsFunc(r.ops, func(o stubOp) bool { return o.kind != opCheck })
}

// creates reports whether it makes a sequential node.
func (r stubRequest) creates() bool {
	return slices.ContainsFunc(r.ops, func(o stubOp) bool { return o.kind == opCreate && o.flags&2 != 0 })
}

type stubNode struct {
	data                       []byte
	owner, czxid, mzxid, pzxid int64
	version, cversion          int32
}

// A stub stands for an ensemble where a test needs what a real one cannot show
// on demand: requests that are lost at a chosen moment, in fake time. It has one
// tree, whatever address it is reached by, and keeps every session until expire.
type stub struct {
	timeout time.Duration // that it grants
	running sync.WaitGroup

	mu       sync.Mutex // guards what follows
	zxid     int64
	nodes    map[string]stubNode
	sessions map[int64]bool // alive
	conns    map[*stubConn]struct{}
	watches  map[string]map[*stubConn]struct{}
	script   func(stubRequest) verdict
	cutOff   chan struct{} // not nil while nothing passes; closed when it does again
	down     time.Time     // until when connections are refused
	dials    int
	requests []stubRequest
}

func newStub(t *testing.T) *stub {
	t.Helper()
	s := &stub{
		timeout:  stubTimeout,
		zxid:     1 << 32,
		nodes:    map[string]stubNode{"": {}},
		sessions: make(map[int64]bool),
		conns:    make(map[*stubConn]struct{}),
		watches:  make(map[string]map[*stubConn]struct{}),
		script:   func(stubRequest) verdict { return answer },
	}
	t.Cleanup(func() {
		s.hangUp(0)
		s.running.Wait()
	})
	return s
}

// options returns the options of a client that connects only to the stub.
func (s *stub) options() *Options {
	return &Options{SessionTimeout: s.timeout, Dial: s.dial, Logger: slog.New(slog.DiscardHandler)}
}

// connect returns a client of three servers, which ends with the test.
func (s *stub) connect(t *testing.T, opts *Options) *Client {
	t.Helper()
	client, err := Connect(t.Context(), []string{"zk1", "zk2", "zk3"}, opts)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func (s *stub) dial(ctx context.Context, _, address string) (net.Conn, error) {
	s.mu.Lock()
	s.dials++
	cut, down := s.cutOff, time.Now().Before(s.down)
	s.mu.Unlock()
	if down {
		return nil, errUnreachable
	}
	if cut != nil {
		select {
		case <-cut:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	client, server := net.Pipe()
	c := &stubConn{Conn: server, stub: s, server: address, out: make(chan []byte, 4096)}
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	s.running.Go(c.read)
	s.running.Go(c.write)
	return client, nil
}

// on makes script decide on each request. Calls for one connection do not overlap.
func (s *stub) on(script func(stubRequest) verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

// cut drops all packets in both directions until mend is called.
func (s *stub) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cutOff = make(chan struct{})
}

func (s *stub) mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.cutOff)
	s.cutOff = nil
}

// refuse ends all connections, and accepts none for a time.
func (s *stub) refuse(d time.Duration) {
	s.mu.Lock()
	s.down = time.Now().Add(d)
	s.mu.Unlock()
	s.hangUp(0)
}

// hangUp closes the connections of a session, or all.
func (s *stub) hangUp(session int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if session == 0 || c.session == session {
			_ = c.Close() // never waits
		}
	}
}

// expire ends a session as a leader does.
func (s *stub) expire(session int64) {
	s.expireUnheard(session)
	s.hangUp(session)
}

// expireUnheard expires a session without closing its connection: the answer to the next
// request reports the expiry.
func (s *stub) expireUnheard(session int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endSession(session)
}

// endSession is called with mu held.
func (s *stub) endSession(session int64) {
	s.sessions[session] = false
	s.zxid++
	for path, n := range s.nodes {
		if n.owner == session {
			s.remove(path)
		}
	}
}

// remove is called with mu held.
func (s *stub) remove(path string) {
	parent := s.nodes[parentPath(path)]
	parent.pzxid = s.zxid
	s.nodes[parentPath(path)] = parent
	delete(s.nodes, path)
	s.fire(path)
}

// fire is called with mu held.
func (s *stub) fire(path string) {
	for c := range s.watches[path] {
		event := binary.BigEndian.AppendUint32(nil, 2) // deleted
		event = binary.BigEndian.AppendUint32(event, 3)
		c.send(wiretest.Reply(-1, -1, 0, wiretest.AppendString(event, path)))
	}
	delete(s.watches, path)
}

// queue returns the paths of the contenders below /l.
func (s *stub) queue() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.childrenOf("/l")
}

// childrenOf is called with mu held.
func (s *stub) childrenOf(path string) []string {
	var names []string
	for p := range s.nodes {
		if p != "" && parentPath(p) == path {
			names = append(names, p)
		}
	}
	slices.Sort(names)
	return names
}

func (s *stub) node(path string) stubNode {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[path]
}

// count sets the number of the next node below /l.
func (s *stub) count(number int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes["/l"]
	n.cversion = number
	s.nodes["/l"] = n
}

// delete removes a node, as another client does.
func (s *stub) delete(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zxid++
	s.remove(path)
}

// overwrite sets a node's data, as another client does.
func (s *stub) overwrite(path, data string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zxid++
	s.apply(nil, stubOp{kind: opSetData, path: path, data: []byte(data), version: -1})
}

// make creates a persistent node, and returns its czxid.
func (s *stub) make(path string, data string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zxid++
	s.apply(nil, stubOp{kind: opCreate, path: path, data: []byte(data)})
	return s.zxid
}

// seen returns the received requests for which want returns true.
func (s *stub) seen(want func(stubRequest) bool) []stubRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	var picked []stubRequest
	for _, r := range s.requests {
		if want(r) {
			picked = append(picked, r)
		}
	}
	return picked
}

func (s *stub) dialled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials
}

// apply carries out one operation, and returns the body of its answer. It is
// called with mu held.
func (s *stub) apply(c *stubConn, o stubOp) (body []byte, code int32) {
	n, exists := s.nodes[o.path]
	if o.kind != opCreate && o.kind != opContainer && !exists {
		return nil, codeNoNode
	}
	if (o.kind == opDelete || o.kind == opCheck || o.kind == opSetData) && o.version != -1 && o.version != n.version {
		return nil, codeBadVersion
	}
	switch o.kind {
	case opCreate, opContainer:
		parent, ok := s.nodes[parentPath(o.path)]
		if !ok {
			return nil, codeNoNode
		}
		path := o.path
		if o.flags&2 != 0 {
			path = fmt.Sprintf("%s%010d", path, parent.cversion)
		}
		if _, taken := s.nodes[path]; taken {
			return nil, codeNodeExists
		}
		if parent.cversion < math.MaxInt32 {
			parent.cversion++ // and there it sticks
		}
		parent.pzxid = s.zxid
		s.nodes[parentPath(o.path)] = parent
		made := stubNode{data: o.data, czxid: s.zxid, mzxid: s.zxid, pzxid: s.zxid}
		if o.flags&1 != 0 && o.kind == opCreate {
			made.owner = c.session
		}
		s.nodes[path] = made
		return wiretest.AppendString(nil, path), 0
	case opDelete:
		if len(s.childrenOf(o.path)) > 0 {
			return nil, codeNotEmpty
		}
		s.remove(o.path)
	case opSetData:
		n.data, n.mzxid, n.version = o.data, s.zxid, n.version+1
		s.nodes[o.path] = n
		return s.stat(o.path), 0
	case opGetData:
		if o.watch {
			if s.watches[o.path] == nil {
				s.watches[o.path] = make(map[*stubConn]struct{})
			}
			s.watches[o.path][c] = struct{}{}
		}
		return append(wiretest.AppendString(nil, string(n.data)), s.stat(o.path)...), 0
	case opGetChildren:
		names := s.childrenOf(o.path)
		body := binary.BigEndian.AppendUint32(nil, uint32(len(names)))
		for _, name := range names {
			body = wiretest.AppendString(body, name[len(o.path)+1:])
		}
		return append(body, s.stat(o.path)...), 0
	}
	return nil, 0
}

// transact carries out all operations or none. It is called with mu held.
func (s *stub) transact(c *stubConn, ops []stubOp) []byte {
	before := maps.Clone(s.nodes)
	bodies := make([][]byte, len(ops))
	failed, failure := -1, int32(0)
	for i, o := range ops {
		if bodies[i], failure = s.apply(c, o); failure != 0 {
			s.nodes, failed = before, i
			break
		}
	}
	var all []byte
	for i, o := range ops {
		kind, code, body := o.kind, int32(0), bodies[i]
		if failed >= 0 {
			if i == failed {
				code = failure
			} else if i > failed {
				code = codeUndone
			}
			kind, body = opError, binary.BigEndian.AppendUint32(nil, uint32(code))
		}
		all = binary.BigEndian.AppendUint32(all, uint32(kind))
		all = append(all, 0)
		all = binary.BigEndian.AppendUint32(all, uint32(code))
		all = append(all, body...)
	}
	return append(all, 255, 255, 255, 255, 1, 255, 255, 255, 255)
}

// stat is called with mu held.
func (s *stub) stat(path string) []byte {
	n := s.nodes[path]
	var b []byte
	for _, v := range []int64{n.czxid, n.mzxid, 0, 0} {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	for _, v := range []int32{n.version, n.cversion, 0} {
		b = binary.BigEndian.AppendUint32(b, uint32(v))
	}
	b = binary.BigEndian.AppendUint64(b, uint64(n.owner))
	b = binary.BigEndian.AppendUint32(b, uint32(len(n.data)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.childrenOf(path))))
	return binary.BigEndian.AppendUint64(b, uint64(n.pzxid))
}

// A stubConn is the server's end of one connection.
type stubConn struct {
	net.Conn
	stub    *stub
	server  string
	out     chan []byte
	session int64 // set by the handshake; guarded by stub.mu for others than the reader
}

func (c *stubConn) send(frame []byte) { c.out <- frame }

func (c *stubConn) write() {
	for frame := range c.out {
		if _, err := c.Write(frame); err != nil {
			_ = c.Close() // the reader ends, and with it out
		}
	}
	_ = c.Close()
}

func (c *stubConn) read() {
	s := c.stub
	defer func() {
		s.mu.Lock()
		delete(s.conns, c)
		for _, watching := range s.watches {
			delete(watching, c)
		}
		s.mu.Unlock()
		close(c.out) // no goroutine sends to a connection that is not in watches
	}()
	for greeted := false; ; greeted = true {
		packet, err := wiretest.Read(c)
		if err != nil {
			return
		}
		f := &frame{packet}
		r := stubRequest{at: time.Now(), server: c.server, session: c.session, op: opConnect}
		var xid int32
		if greeted {
			xid, r.op = f.int32(), f.int32()
			r.ops = f.ops(r.op)
		} else {
			r.session = (&frame{packet[16:]}).int64()
		}
		s.mu.Lock()
		s.requests = append(s.requests, r)
		script, swallowed := s.script, s.cutOff != nil
		s.mu.Unlock()
		if swallowed {
			continue
		}
		verdict := script(r)
		switch verdict {
		case cutBefore:
			return
		case ignore:
			continue
		case deny:
			c.send(wiretest.Reply(xid, 0, codeAuthFailed, nil))
			return
		case forbid:
			c.send(wiretest.Reply(xid, 0, codeNoAuth, nil))
			continue
		case puzzle:
			c.send(wiretest.Reply(xid, 0, codeNameless, nil))
			continue
		}
		var answered []byte
		if greeted {
			answered = c.carryOut(xid, r)
		} else {
			answered = c.greet(f)
		}
		switch verdict {
		case cutAfter:
			return
		case answer:
			c.send(answered)
		}
	}
}

// greet opens or resumes a session.
func (c *stubConn) greet(f *frame) []byte {
	s := c.stub
	f.int32() // protocol version
	f.int64() // last zxid seen
	f.int32() // timeout asked for
	id := f.int64()
	s.mu.Lock()
	defer s.mu.Unlock()
	timeout := s.timeout
	switch {
	case id == 0:
		s.zxid++
		id = 0x100 + int64(len(s.sessions))
		s.sessions[id] = true
	case !s.sessions[id]:
		id, timeout = 0, 0
	}
	c.session = id
	return wiretest.Hello(timeout, id)
}

func (c *stubConn) carryOut(xid int32, r stubRequest) []byte {
	s := c.stub
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.op {
	case opSetAuth:
		return wiretest.Reply(xid, 0, 0, nil) // without a zxid, as real ones do
	case opPing:
		return wiretest.Reply(xid, s.zxid, 0, nil)
	}
	if !s.sessions[c.session] {
		return wiretest.Reply(xid, s.zxid, codeExpired, nil)
	}
	switch r.op {
	case opClose:
		s.endSession(c.session)
		return wiretest.Reply(xid, s.zxid, 0, nil)
	case opSetWatches:
		for _, o := range r.ops {
			if _, code := s.apply(c, o); code == codeNoNode {
				s.watches[o.path] = map[*stubConn]struct{}{c: {}}
				s.fire(o.path)
			}
		}
		return wiretest.Reply(xid, s.zxid, 0, nil)
	case opMulti:
		s.zxid++
		return wiretest.Reply(xid, s.zxid, 0, s.transact(c, r.ops))
	case opGetData, opGetChildren:
	default:
		s.zxid++
	}
	body, code := s.apply(c, r.ops[0])
	return wiretest.Reply(xid, s.zxid, code, body)
}

// parentPath is that of the stub's tree, whose root is the empty path.
func parentPath(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }

var errUnreachable = errors.New("stub: no route to host")
