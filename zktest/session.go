// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// The callers of the unexported functions in this file hold the ensemble's mu, unless they
// say otherwise.

// A Session describes a session.
type Session struct {
	ID       int64
	Timeout  time.Duration // as negotiated when it attached last
	Server   int           // where it attached last, by its id
	Attached bool          // it has a connection now
}

// createSession is the request of a handshake for a new session.
type createSession struct{ timeout time.Duration }

// attach is the request of a handshake for an existing session.
type attach struct {
	id       int64
	password []byte
	timeout  time.Duration
}

// expiry is the leader's own request to end a session that has expired.
type expiry struct{ of *session }

// phase makes sessions expire 1/phase of a tick after the instants at which the leader
// pings its followers. On real servers the offset is arbitrary: with this one, a session
// that was heard just before a ping expires as early as possible.
const phase = 32

// ticks returns the number of instants of expiry that have passed.
func (e *Ensemble) ticks(now time.Time) int64 {
	return int64((now.Sub(e.began) - e.opts.Tick/phase) / e.opts.Tick)
}

// touch makes a session expire after the timeout, and up to a tick more: also earlier than it
// would have, after a handshake that asked for less. A session that is closing stays so.
func (e *Ensemble) touch(ses *session, timeout time.Duration, now time.Time) {
	if !ses.closing {
		ses.expires = e.ticks(now.Add(timeout)) + 1
	}
}

// heard records that this server has received a frame of the connection's session. Only the
// leader can renew the session; another server reports it at the leader's next ping.
func (s *Server) heard(c *conn) {
	if s == s.ensemble.leader {
		s.ensemble.touch(c.session, c.timeout, time.Now())
		return
	}
	if !s.replaced {
		s.touched[c.session.id] = c.timeout
	}
}

// tick is the ensemble's clock, until Close. The leader pings its followers every half
// tick, and sessions expire once a tick. Each server closes silent connections without a
// handshake. The caller does not hold mu.
func (e *Ensemble) tick() {
	pings := time.NewTicker(e.opts.Tick / 2)
	defer pings.Stop()
	expiry := time.NewTimer(e.opts.Tick / phase)
	defer expiry.Stop()
	silence := time.NewTicker(e.opts.HandshakeTimeout)
	defer silence.Stop()
	for {
		select {
		case <-silence.C:
			e.closeSilent(time.Now())
		case <-pings.C:
			e.ifLeading(e.ping)
		case <-expiry.C:
			expiry.Reset(e.opts.Tick)
			e.ifLeading(e.expire)
		case <-e.stop:
			return
		}
	}
}

// closeSilent closes the connections without a handshake that have sent nothing during
// one whole interval, as ZooKeeper does. A single byte counts. The caller does not hold mu.
func (e *Ensemble) closeSilent(now time.Time) {
	e.mu.Lock()
	defer e.unlock()
	interval := e.opts.HandshakeTimeout
	for _, c := range inOrder(e.conns) {
		if c.sawHandshake || c.unanswered || c.ended {
			continue
		}
		touched := time.Duration(c.touched.Load())
		if expires := (touched/interval + 2) * interval; now.Sub(e.began) >= expires {
			c.finish(fmt.Errorf("no handshake: silent for %v", now.Sub(e.began)-touched))
		}
	}
}

// ifLeading calls do under mu if there is a leader, with a quorum or without one. The clock of
// one that is paused stands still. The caller does not hold mu.
func (e *Ensemble) ifLeading(do func(now time.Time)) {
	e.mu.Lock()
	defer e.unlock()
	if !e.closed && e.leader != nil && !e.leader.paused {
		do(time.Now())
	}
}

// ping renews the sessions that the followers have heard since the last ping.
func (e *Ensemble) ping(now time.Time) {
	for _, s := range e.servers {
		if s == e.leader || !s.reachesLeader() {
			continue
		}
		for id, timeout := range s.touched {
			if ses := e.sessions[id]; ses != nil {
				e.touch(ses, timeout, now)
			}
		}
		clear(s.touched)
	}
}

// expire ends the sessions whose time has come, and checks the containers once every
// ContainerInterval. Without a quorum nothing can be committed: a session whose time has come
// is then closing, which no touch changes, and ends once this leader has its quorum again.
func (e *Ensemble) expire(now time.Time) {
	due, quorum := e.ticks(now), e.quorum()
	var expired []*session
	for _, ses := range e.sessions {
		if ses.expires <= due && (quorum || !ses.closing) {
			expired = append(expired, ses)
		}
	}
	slices.SortFunc(expired, func(a, b *session) int { return cmp.Compare(a.id, b.id) })
	for _, ses := range expired {
		ses.closing = true
		e.leader.propose(&request{body: expiry{ses}})
	}
	if quorum && now.Sub(e.checked) >= e.opts.ContainerInterval {
		e.checked = now
		e.checkContainers(now)
	}
}

// endSession closes a session on all servers, and deletes its ephemeral nodes.
func (e *Ensemble) endSession(ses *session, expired bool) entry {
	delete(e.sessions, ses.id)
	e.zxid++
	txn, outcome := e.leader.tree.CloseSession(e.zxid, time.Now().UnixMilli(), ses.id)
	en := entry{txn: txn, outcome: outcome, closes: ses.id}
	e.record(ses.id, wire.CloseSession{}, en, expired)
	e.commit(en)
	return en
}

// closeSession ends the connection of a session that has ended. A connection that sent
// closeSession is answered first.
func (s *Server) closeSession(id int64) {
	for c := range s.conns {
		if c.session == nil || c.session.id != id {
			continue
		}
		if slices.ContainsFunc(c.waiting, func(r *request) bool { return r.op == wire.OpCloseSession }) {
			continue // answering it ends the connection
		}
		c.finish(nil)
	}
}

// negotiate returns the session timeout for a client that asks for that many
// milliseconds.
func (e *Ensemble) negotiate(asked int32) time.Duration {
	return min(max(time.Duration(asked)*time.Millisecond, 2*e.opts.Tick), 20*e.opts.Tick)
}

// handshake handles a connection's first frame. An error ends the connection.
func (c *conn) handshake(r *request, req wire.ConnectRequest) error {
	s, e := c.server, c.server.ensemble
	c.sawHandshake, c.knowsReadOnly = true, req.KnowsReadOnly
	switch {
	case !s.serving:
		return errors.New("handshake: server does not serve: no leader")
	case req.LastZxid > s.zxid:
		return fmt.Errorf("handshake: client has seen zxid 0x%x, and this server's last is 0x%x", req.LastZxid, s.zxid)
	}
	r.op, r.quorum = wire.OpCreateSession, true
	c.timeout = e.negotiate(req.Timeout)
	if req.Session == 0 || e.opts.Personality == Keeper {
		r.body = createSession{timeout: c.timeout}
	} else {
		for other := range s.conns {
			if other != c && other.session != nil && other.session.id == req.Session {
				other.finish(errors.New("client has reconnected"))
			}
		}
		r.body = attach{id: req.Session, password: req.Password, timeout: c.timeout}
	}
	c.submit(r)
	return nil
}

// newID returns a session id in ZooKeeper's form: the server in the first byte, and below
// it a counter that begins at the ensemble's start time.
func (e *Ensemble) newID(s *Server) int64 {
	e.sessionsMade++
	began := uint64(e.began.UnixMilli()) << 24 >> 8       //nolint:gosec // after 1970
	return int64(uint64(s.id)<<56|began) + e.sessionsMade //nolint:gosec // an index is small
}

// openSession decides on a new session.
func (e *Ensemble) openSession(r *request, timeout time.Duration) {
	ses := &session{
		id:           e.newID(r.conn.server),
		password:     make([]byte, 16),
		firstTimeout: timeout,
		timeout:      timeout,
		server:       r.conn.server,
	}
	_, _ = rand.Read(ses.password) // never fails
	e.sessions[ses.id] = ses
	e.touch(ses, timeout, time.Now())
	r.session = ses
	e.zxid++
	en := entry{}
	en.txn, en.outcome = e.leader.tree.Commit(e.zxid, time.Now().UnixMilli(), ses.id, nil,
		tree.OpenSession{Timeout: int32(timeout / time.Millisecond)}) //nolint:gosec // below 20 ticks
	r.resolve(en)
	e.record(ses.id, createSession{}, en, false)
	e.commit(en)
}

// attachSession decides whether a session that exists moves to where r came from.
func (e *Ensemble) attachSession(r *request, a attach) {
	r.zxid, r.decided = 0, true
	ses := e.sessions[a.id]
	if ses == nil || ses.closing || !bytes.Equal(ses.password, a.password) {
		return // r.session stays nil: the session has ended or expired, or the password is wrong
	}
	ses.server, ses.timeout = r.conn.server, a.timeout
	r.session = ses
	e.touch(ses, a.timeout, time.Now())
}

// answerHandshake answers a handshake, and ends the connection if it has no session.
func (c *conn) answerHandshake(r *request) {
	ses := r.session
	reply := wire.ConnectReply{Password: make([]byte, 16), KnowsReadOnly: c.knowsReadOnly}
	if ses != nil {
		reply.Timeout = int32(c.timeout / time.Millisecond) //nolint:gosec // below 20 ticks
		reply.Session, reply.Password = ses.id, ses.password
		c.session = ses
		ses.conn = c
	}
	c.sendBy(r.effects, reply.Frame())
	if ses == nil {
		c.finish(nil)
	}
}

// Sessions returns the live sessions, in order of creation.
func (e *Ensemble) Sessions() []Session {
	e.mu.Lock()
	defer e.unlock()
	all := make([]Session, 0, len(e.sessions))
	for _, ses := range e.sessions {
		all = append(all, Session{ID: ses.id, Timeout: ses.timeout, Server: ses.server.id, Attached: ses.conn != nil})
	}
	slices.SortFunc(all, func(a, b Session) int { return cmp.Compare(a.ID<<8, b.ID<<8) })
	return all
}

// Expire ends a session immediately, as if its timeout had passed: its ephemeral nodes
// are deleted, and its client is disconnected and learns of the loss when it attaches
// again. The cause of an error is ErrNoSession or ErrNoQuorum.
func (e *Ensemble) Expire(_ context.Context, session int64) error {
	e.mu.Lock()
	defer e.unlock()
	ses := e.sessions[session]
	name := fmt.Sprintf("session 0x%x", uint64(session)) //nolint:gosec // as ZooKeeper prints it
	switch {
	case ses == nil:
		return &OpError{Op: "expire", Path: name, Err: ErrNoSession}
	case !e.quorum():
		return &OpError{Op: "expire", Path: name, Err: ErrNoQuorum}
	}
	e.endSession(ses, true)
	return nil
}
