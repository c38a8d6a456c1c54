// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // what ZooKeeper's digest scheme is defined by
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A request is what a client has asked for, until it is answered. Those of one
// connection are answered in their order. Guarded by the ensemble's mu, as all of
// this file is.
type request struct {
	conn    *conn
	xid     int32
	op      wire.Op
	body    any
	size    int             // of its frame
	who     []tree.Identity // as whom it is carried out
	quorum  bool            // the leader decides it
	decided bool
	zxid    int64 // what must have been applied before it is answered
	outcome tree.Outcome
	session *session   // of a handshake: the one that it gets, nil if it is no more
	rules   *treatment // what rules do with it, nil if nothing
}

// decide notes what the leader made of the request.
func (r *request) decide(en entry) {
	r.decided, r.zxid, r.outcome = true, en.txn.Zxid, en.outcome
}

// opGreeting is the operation of a handshake, which has none in the protocol.
const opGreeting wire.Op = -2

// parse reads a frame, without the ensemble's mu. The error ends the connection.
func (c *conn) parse(frame []byte) (*request, error) {
	if !c.greeted { // only this goroutine sets it
		req, err := wire.ReadConnect(frame)
		if err != nil {
			return nil, fmt.Errorf("connect request: %w", err)
		}
		return &request{conn: c, op: opGreeting, body: req, size: len(frame)}, nil
	}
	r := wire.NewReader(frame)
	h := wire.ReadHeader(r)
	body, err := wire.ReadRequest(h.Op, r)
	switch {
	case r.Err() != nil:
		return nil, fmt.Errorf("request %v: %w", h.Op, r.Err())
	case errors.Is(err, wire.ErrUnknownOp) && h.Op == wire.OpMulti:
		body = tree.Refused{Op: h.Op, Code: wire.MarshallingError}
	case h.Op == wire.OpDeleteContainer: // servers send it, to themselves: from others, its path is taken for none
		body = tree.Refused{Op: h.Op, Code: wire.BadArguments}
	case errors.Is(err, wire.ErrUnknownOp) && h.Op == wire.OpMultiRead:
		body = refusal{wire.MarshallingError}
	case errors.Is(err, wire.ErrUnknownOp):
		body = unimplemented{}
	case err != nil:
		return nil, err
	}
	req := &request{conn: c, xid: h.Xid, op: h.Op, body: body, size: len(frame)}
	switch body.(type) {
	case wire.Create, wire.Delete, wire.SetData, wire.SetACL, wire.Check, wire.Multi, wire.Reconfig, wire.CloseSession,
		wire.Sync, tree.Refused:
		req.quorum = true
	case wire.Ping:
		req.xid = wire.XidPing // whatever it was
	}
	return req, nil
}

// unimplemented is a request whose operation is not known.
type unimplemented struct{}

// handle carries out what a frame asks for, as far as it can be now. An error ends the
// connection.
func (c *conn) handle(item inbound, r *request, t *treatment) error {
	if c.greeted && c.session == nil {
		return errors.New("request before the handshake was answered")
	}
	if c.session != nil {
		c.server.heard(c.session)
	}
	if item.bad != nil {
		return item.bad
	}
	r.who, r.rules = c.who, t
	r.refuseBy(t)
	switch body := r.body.(type) {
	case wire.ConnectRequest:
		return c.greet(r, body)
	case unimplemented:
		c.reply(r, -1, wire.Unimplemented, nil)
		c.finish(fmt.Errorf("%v is not implemented", r.op))
		return nil
	case wire.Auth:
		return c.authenticate(r, body)
	case refusal:
		if r.op == wire.OpAuth {
			c.refuseAuth(r, body.code)
			return nil
		}
	}
	c.ask(r)
	return nil
}

// ask has a request decided, and answered as soon as it can be.
func (c *conn) ask(r *request) {
	c.waiting = append(c.waiting, r)
	c.kept += r.size
	c.server.waiting[c] = struct{}{}
	if r.quorum {
		c.server.propose(r)
	}
	c.pump()
}

// propose takes a request to the leader.
func (s *Server) propose(r *request) {
	e := s.ensemble
	switch {
	case s.deposed && s.actsAlone(r):
	case s.cut, !e.quorum():
		s.pending = append(s.pending, r)
	default:
		e.decide(r)
	}
}

// actsAlone says whether a leader that does not know yet that it is none decides the
// request by itself: it takes sync for a read, and sessions for what it remembers.
func (s *Server) actsAlone(r *request) bool {
	switch body := r.body.(type) {
	case wire.Sync:
		r.decided = true
		return true
	case attach:
		r.decided = true
		if ses := s.remembered[body.id]; ses != nil && bytes.Equal(ses.password, body.password) {
			r.session = ses // without the leader's knowing
		}
		return true
	}
	return false
}

// forward takes to the leader what had to wait.
func (s *Server) forward() {
	pending := s.pending
	s.pending = nil
	for _, r := range pending {
		s.propose(r)
		r.conn.pump()
	}
}

// decide is the leader's: it carries a request out, or refuses it.
func (e *Ensemble) decide(r *request) {
	switch body := r.body.(type) {
	case createSession:
		e.openSession(r, body.timeout)
		return
	case attach:
		e.attachSession(r, body)
		return
	case wire.Sync:
		r.decided, r.zxid = true, e.zxid
		return
	}
	ses := r.conn.session
	switch {
	case e.sessions[ses.id] != ses:
		r.refuse(wire.SessionExpired)
	case ses.server != r.conn.server:
		r.conn.finish(errors.New("session has moved to another server"))
	case r.op == wire.OpCloseSession:
		r.decided = true // before it is carried out, for that answers it
		r.zxid = e.zxid + 1
		en := e.endSession(ses, false)
		r.decide(en)
	default:
		e.zxid++
		en := entry{}
		en.txn, en.outcome = e.leader.tree.Commit(e.zxid, time.Now().UnixMilli(), ses.id, r.who, r.body)
		r.decide(en)
		e.record(ses.id, r.body, en, false)
		e.commit(en)
	}
}

// refuse answers a request that is not carried out.
func (r *request) refuse(code wire.Code) {
	r.decided = true
	r.outcome = tree.Outcome{Code: code, Op: r.op}
}

// pump answers the connection's requests, up to the first that has to wait.
func (c *conn) pump() {
	for !c.over && len(c.waiting) > 0 {
		r := c.waiting[0]
		if r.quorum && (!r.decided || c.server.zxid < r.zxid) {
			return
		}
		c.waiting[0] = nil
		c.waiting = c.waiting[1:]
		c.kept -= r.size
		c.eased.Broadcast()
		c.answer(r)
	}
	if len(c.waiting) == 0 {
		delete(c.server.waiting, c)
	}
}

func (c *conn) answer(r *request) {
	switch body := r.body.(type) {
	case createSession, attach:
		c.welcomeSession(r)
	case wire.CloseSession:
		c.reply(r, r.zxid, r.outcome.Code, nil)
		c.finish(nil)
	case wire.Sync:
		c.reply(r, c.server.zxid, wire.OK, func(w *wire.Writer) { w.String(body.Path) })
	default:
		if r.quorum {
			zxid := r.zxid
			if zxid == 0 {
				zxid = c.server.zxid
			}
			c.reply(r, zxid, r.outcome.Code, putOutcome(r.outcome))
			return
		}
		code, put := c.server.read(c, r)
		c.reply(r, c.server.zxid, code, put)
	}
}

// reply sends an answer: a header, and a body unless it is a refusal.
func (c *conn) reply(r *request, zxid int64, code wire.Code, body func(*wire.Writer)) {
	w := wire.NewWriter()
	wire.ReplyHeader{Xid: r.xid, Zxid: zxid, Err: code}.Put(w)
	if body != nil {
		body(w)
	}
	if w.Len() > maxOutbound {
		c.finish(fmt.Errorf("reply of more than %d bytes", maxOutbound))
		return
	}
	c.sendBy(r.rules, w.Frame())
}

// putOutcome is the body of the answer to a write, nil where it has none.
func putOutcome(o tree.Outcome) func(*wire.Writer) {
	if o.Code != wire.OK {
		return nil
	}
	if o.Op == wire.OpMulti {
		return func(w *wire.Writer) { putMulti(w, o) }
	}
	switch o.Op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpSetData, wire.OpSetACL:
		return func(w *wire.Writer) { putResult(w, o) }
	}
	return nil
}

func putResult(w *wire.Writer, o tree.Outcome) {
	switch o.Op {
	case wire.OpCreate:
		w.String(o.Path)
	case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		w.String(o.Path)
		o.Stat.Put(w)
	case wire.OpSetData, wire.OpSetACL:
		o.Stat.Put(w)
	}
}

func putMulti(w *wire.Writer, o tree.Outcome) {
	failed := o.Err() != wire.OK
	for _, r := range o.Results {
		if failed {
			wire.PutMultiHeader(w, wire.OpError, false, r.Code)
			w.Int32(int32(r.Code))
			continue
		}
		wire.PutMultiHeader(w, r.Op, false, wire.OK)
		putResult(w, r)
	}
	wire.PutMultiHeader(w, wire.OpError, true, -1)
}

// authenticate adds an identity to the connection.
func (c *conn) authenticate(r *request, auth wire.Auth) error {
	switch {
	case auth.Scheme == "digest" && auth.Data != nil:
		user, _, _ := strings.Cut(string(auth.Data), ":")
		sum := sha1.Sum(auth.Data) //nolint:gosec // what the scheme is defined by
		c.identify(tree.Identity{Scheme: "digest", ID: user + ":" + base64.StdEncoding.EncodeToString(sum[:])})
	case auth.Scheme == "ip":
		c.identify(tree.Identity{Scheme: "ip", ID: hostOf(c.remote)})
	default:
		c.refuseAuth(r, wire.AuthFailed)
		return nil
	}
	c.reply(r, 0, wire.OK, nil)
	return nil
}

// refuseAuth answers a credential that is not accepted, and ends the connection.
func (c *conn) refuseAuth(r *request, code wire.Code) {
	c.reply(r, 0, code, nil)
	c.finish(nil)
}

func (c *conn) identify(as tree.Identity) {
	for _, known := range c.who {
		if known == as {
			return
		}
	}
	// A new slice: requests that wait have the old one.
	c.who = append(c.who[:len(c.who):len(c.who)], as)
}

// read carries out what asks and changes nothing but watches.
func (s *Server) read(c *conn, r *request) (wire.Code, func(*wire.Writer)) {
	switch body := r.body.(type) {
	case wire.Exists:
		stat, code := s.tree.Exists(body.Path)
		if body.Watch {
			s.data.add(c, body.Path, once)
		}
		return code, when(code, stat.Put)
	case wire.GetData:
		data, stat, code := s.tree.Get(body.Path, r.who)
		if body.Watch && code == wire.OK {
			s.data.add(c, body.Path, once)
		}
		return code, when(code, func(w *wire.Writer) { w.Bytes(data); stat.Put(w) })
	case wire.GetChildren:
		names, stat, code := s.tree.Children(body.Path, r.who)
		if body.Watch && code == wire.OK {
			s.children.add(c, body.Path, once)
		}
		return code, when(code, func(w *wire.Writer) {
			w.Strings(names)
			if body.WithStat {
				stat.Put(w)
			}
		})
	case wire.GetACL:
		acl, stat, code := s.tree.ACL(body.Path, r.who)
		return code, when(code, func(w *wire.Writer) { wire.PutACL(w, acl); stat.Put(w) })
	case wire.MultiRead:
		return wire.OK, func(w *wire.Writer) { s.putMultiRead(w, r.who, body) }
	case wire.GetEphemerals:
		names := s.tree.Ephemerals(c.session.id, body.Prefix)
		return wire.OK, func(w *wire.Writer) { w.Strings(names) }
	case wire.GetAllChildrenNumber:
		n, code := s.tree.CountDescendants(body.Path, r.who)
		return code, when(code, func(w *wire.Writer) { w.Int32(n) })
	case wire.WhoAmI:
		// Everybody is anyone, which is why ZooKeeper does not say so.
		who := slices.DeleteFunc(slices.Clone(r.who), func(id tree.Identity) bool { return id.Scheme == "world" })
		return wire.OK, func(w *wire.Writer) {
			w.Int32(int32(len(who))) //nolint:gosec // a handful
			for _, id := range who {
				w.String(id.Scheme)
				w.String(userOf(id))
			}
		}
	case wire.SetWatches:
		s.setWatches(c, body)
	case wire.AddWatch:
		switch body.Mode {
		case 0:
			s.data.add(c, body.Path, persistent)
			s.children.add(c, body.Path, persistent)
		case 1:
			s.addRecursive(c, body.Path)
		default:
			return wire.MarshallingError, nil
		}
		return wire.OK, func(w *wire.Writer) { w.Int32(int32(wire.OK)) }
	case wire.CheckWatches:
		return s.lookForWatch(c, body.Path, body.Type, false), nil
	case wire.RemoveWatches:
		return s.lookForWatch(c, body.Path, body.Type, true), nil
	case refusal:
		return body.code, nil
	}
	return wire.OK, nil // a ping
}

// userOf is what is shown of an identity: of a digest, its user.
func userOf(id tree.Identity) string {
	if id.Scheme != "digest" {
		return id.ID
	}
	user, _, _ := strings.Cut(id.ID, ":")
	return user
}

func when(code wire.Code, body func(*wire.Writer)) func(*wire.Writer) {
	if code != wire.OK {
		return nil
	}
	return body
}

func (s *Server) putMultiRead(w *wire.Writer, who []tree.Identity, req wire.MultiRead) {
	for _, op := range req.Ops {
		if w.Len() > maxOutbound {
			return // a few bytes can ask for any number, and nobody will see the answer
		}
		code, kind, put := wire.BadArguments, wire.OpError, func(*wire.Writer) {}
		switch op := op.(type) {
		case wire.GetData:
			data, stat, got := s.tree.Get(op.Path, who)
			code, kind, put = got, wire.OpGetData, func(w *wire.Writer) { w.Bytes(data); stat.Put(w) }
		case wire.GetChildren:
			names, _, got := s.tree.Children(op.Path, who)
			code, kind, put = got, wire.OpGetChildren, func(w *wire.Writer) { w.Strings(names) }
		}
		if code != wire.OK {
			wire.PutMultiHeader(w, wire.OpError, false, code)
			w.Int32(int32(code))
			continue
		}
		wire.PutMultiHeader(w, kind, false, wire.OK)
		put(w)
	}
	wire.PutMultiHeader(w, wire.OpError, true, -1)
}
