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

// The callers of all functions in this file hold the ensemble's mu, except the caller of parse.

// resolve records the leader's decision on the request.
func (r *request) resolve(en entry) {
	r.decided, r.zxid, r.outcome = true, en.txn.Zxid, en.outcome
}

// parse reads a frame, without the ensemble's mu. The error ends the connection.
func (c *conn) parse(frame []byte) (*request, error) {
	if !c.sawHandshake { // only this goroutine sets it
		req, err := wire.ReadConnect(frame)
		if err != nil {
			return nil, fmt.Errorf("parse connect request: %w", err)
		}
		return &request{conn: c, op: opHandshake, body: req, size: len(frame)}, nil
	}
	r := wire.NewReader(frame)
	h := wire.ReadHeader(r)
	body, err := wire.ReadRequest(h.Op, r)
	switch {
	case r.Err() != nil:
		return nil, fmt.Errorf("parse request %v: %w", h.Op, r.Err())
	case errors.Is(err, wire.ErrUnknownOp) && h.Op == wire.OpMulti, errors.Is(err, wire.ErrNull) && writes(h.Op):
		body = tree.Refused{Op: h.Op, Code: wire.MarshallingError}
	case errors.Is(err, wire.ErrNull):
		body = refusal{wire.MarshallingError}
	case h.Op == wire.OpDeleteContainer: // servers send it to themselves; ZooKeeper treats a client's as one without a path
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
		req.xid = wire.XidPing // regardless of the client's
	}
	return req, nil
}

// writes reports whether a refused request of the operation takes a zxid.
func writes(op wire.Op) bool {
	switch op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete, wire.OpSetData, wire.OpSetACL, wire.OpMulti:
		return true
	}
	return false
}

// unimplemented is a request with an unknown operation.
type unimplemented struct{}

// handle carries out the request in a frame, as far as possible now. An error ends the
// connection.
func (c *conn) handle(item inbound, r *request, eff *effects) error {
	if c.sawHandshake && c.session == nil {
		return errors.New("handle request: the handshake has not been answered")
	}
	if c.session != nil {
		c.server.heard(c)
	}
	if item.bad != nil {
		return item.bad
	}
	r.identities, r.effects = c.identities, eff
	r.refuseBy(eff)
	if c.mustLogIn(r) {
		c.reply(r, 0, wire.SessionClosedRequireSASLAuth, nil)
		c.finish(fmt.Errorf("%v: connection has not logged in by SASL", r.op))
		return nil
	}
	if r.op == wire.OpCreateContainer && c.server.ensemble.opts.Personality == Keeper {
		return fmt.Errorf("%v is unknown", r.op)
	}
	switch body := r.body.(type) {
	case wire.ConnectRequest:
		return c.handshake(r, body)
	case unimplemented:
		c.reply(r, -1, wire.Unimplemented, nil)
		c.finish(fmt.Errorf("%v is not implemented", r.op))
		return nil
	case wire.Auth:
		return c.authenticate(r, body)
	case wire.SASL:
		return c.login(r, body)
	case refusal:
		if r.op == wire.OpAuth {
			c.refuseAuth(r, body.code)
			return nil
		}
	}
	if c.session != nil && c.session.closing && c.server == c.server.ensemble.leader {
		return nil // ZooKeeper's leader drops the request of a session that it cannot renew
	}
	c.submit(r)
	return nil
}

// submit has a request decided, and answered as soon as possible.
func (c *conn) submit(r *request) {
	c.waiting = append(c.waiting, r)
	c.waitingBytes += r.size
	c.server.waiting[c] = struct{}{}
	if r.quorum {
		c.server.propose(r)
	}
	c.answerReady()
}

// propose passes a request to the leader, or queues it while the leader cannot be reached or
// cannot commit it.
func (s *Server) propose(r *request) {
	e := s.ensemble
	switch {
	case s.replaced && s.decideAlone(r):
	case s.reachesLeader() && (e.quorum() || s.needsNoQuorum(r)):
		e.decide(r)
	default:
		r.proposed = r.proposed || s.reachesLeader() && r.owned()
		s.pending = append(s.pending, r)
	}
}

// needsNoQuorum reports whether the leader decides a request of this server without its quorum:
// it attaches a session, and answers the sync of its own client as a read, and the sync of a
// follower's client unless a transaction waits.
func (s *Server) needsNoQuorum(r *request) bool {
	switch r.body.(type) {
	case attach:
		return true
	case wire.Sync:
		return s == s.ensemble.leader || !s.ensemble.outstanding()
	}
	return false
}

// owned reports whether a request came through the server where its session attached last.
func (r *request) owned() bool {
	return r.conn != nil && r.conn.session != nil && r.conn.session.server == r.conn.server
}

// outstanding reports whether a transaction waits for the leader's quorum.
func (e *Ensemble) outstanding() bool {
	for _, s := range e.servers {
		if s.reachesLeader() && slices.ContainsFunc(s.pending, func(r *request) bool { return r.op != wire.OpSync }) {
			return true
		}
	}
	return false
}

// decideAlone reports whether an isolated leader that does not know that it was replaced has
// decided the request: it treats sync as a read, and attaches the sessions that it
// remembers.
func (s *Server) decideAlone(r *request) bool {
	switch body := r.body.(type) {
	case wire.Sync:
		r.decided = true
		return true
	case attach:
		r.decided = true
		if ses := s.remembered[body.id]; ses != nil && bytes.Equal(ses.password, body.password) {
			r.session = ses // unknown to the new leader
		}
		return true
	}
	return false
}

// forward proposes the requests that had to wait for the leader.
func (s *Server) forward() {
	pending := s.pending
	s.pending = nil
	for _, r := range pending {
		s.propose(r)
		if r.conn != nil { // not the leader's own
			r.conn.answerReady()
		}
	}
}

// decide carries a request out as the leader, or refuses it.
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
	case expiry:
		if e.sessions[body.of.id] == body.of { // its client has not closed it in the meantime
			e.endSession(body.of, true)
		}
		return
	}
	ses := r.conn.session
	switch {
	case e.sessions[ses.id] != ses:
		r.refuse(wire.SessionExpired)
	case !r.proposed && !r.owned():
		r.conn.finish(errors.New("session has moved to another server"))
	case r.op == wire.OpCloseSession:
		r.decided = true // before it is carried out, because applying it answers it
		r.zxid = e.zxid + 1
		en := e.endSession(ses, false)
		r.resolve(en)
	default:
		e.zxid++
		en := entry{}
		en.txn, en.outcome = e.leader.tree.Commit(e.zxid, time.Now().UnixMilli(), ses.id, r.identities, r.body)
		r.resolve(en)
		e.record(ses.id, r.body, en, false)
		e.commit(en)
	}
}

// refuse answers a request that is not carried out.
func (r *request) refuse(code wire.Code) {
	r.decided = true
	r.outcome = tree.Outcome{Code: code, Op: r.op}
}

// answerReady answers the connection's requests, up to the first that has to wait.
func (c *conn) answerReady() {
	for !c.ended && len(c.waiting) > 0 {
		r := c.waiting[0]
		if r.quorum && (!r.decided || c.server.zxid < r.zxid) {
			return
		}
		c.waiting[0] = nil
		c.waiting = c.waiting[1:]
		c.waitingBytes -= r.size
		c.progress.Broadcast()
		c.answer(r)
	}
	if len(c.waiting) == 0 {
		delete(c.server.waiting, c)
	}
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
	case auth.Scheme == "x509" && c.hasCertificate(): // the data do not matter
	default:
		c.refuseAuth(r, wire.AuthFailed)
		return nil
	}
	c.reply(r, 0, wire.OK, nil)
	return nil
}

// refuseAuth answers a rejected credential, and ends the connection.
func (c *conn) refuseAuth(r *request, code wire.Code) {
	c.reply(r, 0, code, nil)
	c.finish(nil)
}

// identify adds an identity to the connection, for its later requests.
func (c *conn) identify(as tree.Identity) {
	for _, known := range c.identities {
		if known == as {
			return
		}
	}
	// In a new slice: waiting requests share the old one.
	c.identities = append(c.identities[:len(c.identities):len(c.identities)], as)
}
