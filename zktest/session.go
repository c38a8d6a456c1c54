// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A session is one client's, as the leader knows it. Guarded by the ensemble's mu,
// as all of this file is.
type session struct {
	id       int64
	password []byte
	timeout  time.Duration
	server   *Server // whose requests are carried out: where it attached last
	conn     *conn   // nil while it is attached nowhere
	expires  int64   // the tick at whose beginning it does
}

// Session describes a session.
type Session struct {
	ID       int64
	Timeout  time.Duration
	Server   int  // where it was attached last
	Attached bool // a connection serves it now
}

// createSession is the request that a handshake makes for a new session.
type createSession struct{ timeout time.Duration }

// attach is the one that it makes for a session that exists.
type attach struct {
	id       int64
	password []byte
}

// phase is by how much of a tick the instants at which sessions expire are later than
// those at which the leader pings its followers. Real ones have any: here a session
// that was heard just before a ping expires as early as it can.
const phase = 32

// ticks is how many instants of expiry have passed.
func (e *Ensemble) ticks(now time.Time) int64 {
	return int64((now.Sub(e.began) - e.opts.Tick/phase) / e.opts.Tick)
}

// touch keeps a session from expiring for its timeout, and up to a tick more.
func (e *Ensemble) touch(ses *session, now time.Time) {
	ses.expires = e.ticks(now.Add(ses.timeout)) + 1
}

// heard notes that a session's client was heard at this server. Only a leader can
// keep the session for that; another server tells it when it is pinged by it.
func (s *Server) heard(ses *session) {
	if s == s.ensemble.leader {
		s.ensemble.touch(ses, time.Now())
		return
	}
	if !s.deposed {
		s.touched[ses.id] = struct{}{}
	}
}

// tick is the ensemble's clock. The leader pings its followers every half tick, and
// sessions expire once a tick. Each server closes connections without a handshake.
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
			e.leads(e.ping)
		case <-expiry.C:
			expiry.Reset(e.opts.Tick)
			e.leads(e.expire)
		case <-e.stop:
			return
		}
	}
}

// closeSilent closes the connections that have sent no handshake and were silent for
// too long, as ZooKeeper does: where one interval has ended in which they sent nothing.
// A byte counts.
func (e *Ensemble) closeSilent(now time.Time) {
	e.mu.Lock()
	defer e.unlock()
	interval := e.opts.HandshakeTimeout
	for _, c := range inOrder(e.conns) {
		if c.greeted || c.mute || c.over {
			continue
		}
		touched := time.Duration(c.touched.Load())
		if expires := (touched/interval + 2) * interval; now.Sub(e.began) >= expires {
			c.finish(fmt.Errorf("no handshake, and silent for %v", now.Sub(e.began)-touched))
		}
	}
}

// leads has the leader do something, if there is one that can.
func (e *Ensemble) leads(do func(now time.Time)) {
	e.mu.Lock()
	defer e.unlock()
	if !e.closed && e.quorum() {
		do(time.Now())
	}
}

// ping has the followers tell whom they have heard.
func (e *Ensemble) ping(now time.Time) {
	for _, s := range e.servers {
		if s == e.leader || !s.connected() {
			continue
		}
		for id := range s.touched {
			if ses := e.sessions[id]; ses != nil {
				e.touch(ses, now)
			}
		}
		clear(s.touched)
	}
}

// expire ends the sessions whose time has come, and looks after what else has.
func (e *Ensemble) expire(now time.Time) {
	due := e.ticks(now)
	var over []int64
	for id, ses := range e.sessions {
		if ses.expires <= due {
			over = append(over, id)
		}
	}
	slices.Sort(over)
	for _, id := range over {
		e.endSession(e.sessions[id], true)
	}
	if now.Sub(e.reaped) >= e.opts.ContainerInterval {
		e.reaped = now
		e.reap(now)
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

// closeSession ends the connection of a session that is no more. One that has asked
// for it is answered first.
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

// negotiate is the timeout that a client gets which asks for so many milliseconds.
func (e *Ensemble) negotiate(asked int32) time.Duration {
	return min(max(time.Duration(asked)*time.Millisecond, 2*e.opts.Tick), 20*e.opts.Tick)
}

// greet handles a connection's first frame.
func (c *conn) greet(r *request, req wire.ConnectRequest) error {
	s, e := c.server, c.server.ensemble
	c.greeted, c.modern = true, req.KnowsReadOnly
	switch {
	case !s.serving:
		return errors.New("not serving: no leader")
	case req.LastZxid > s.zxid:
		return fmt.Errorf("client has seen zxid 0x%x, and the last one here is 0x%x", req.LastZxid, s.zxid)
	}
	r.op, r.quorum = wire.OpCreateSession, true
	if req.Session == 0 {
		r.body = createSession{timeout: e.negotiate(req.Timeout)}
	} else {
		for other := range s.conns {
			if other != c && other.session != nil && other.session.id == req.Session {
				other.finish(errors.New("client has connected again"))
			}
		}
		r.body = attach{id: req.Session, password: req.Password}
	}
	c.ask(r)
	return nil
}

// newID is made as ZooKeeper makes them: the server in the first byte, and below it
// the time at which it began, from which on they count.
func (e *Ensemble) newID(s *Server) int64 {
	e.made++
	began := uint64(e.began.UnixMilli()) << 24 >> 8    //nolint:gosec // after 1970
	return int64(uint64(s.index+1)<<56|began) + e.made //nolint:gosec // an index is small
}

// openSession decides on a new session.
func (e *Ensemble) openSession(r *request, timeout time.Duration) {
	ses := &session{
		id:       e.newID(r.conn.server),
		password: make([]byte, 16),
		timeout:  timeout,
		server:   r.conn.server,
	}
	_, _ = rand.Read(ses.password) // never fails
	e.sessions[ses.id] = ses
	e.touch(ses, time.Now())
	r.session = ses
	e.zxid++
	en := entry{}
	en.txn, en.outcome = e.leader.tree.Commit(e.zxid, time.Now().UnixMilli(), ses.id, nil,
		tree.OpenSession{Timeout: int32(timeout / time.Millisecond)}) //nolint:gosec // below 20 ticks
	r.decide(en)
	e.record(ses.id, createSession{}, en, false)
	e.commit(en)
}

// attachSession decides whether a session that exists moves to where r came from.
func (e *Ensemble) attachSession(r *request, a attach) {
	r.zxid, r.decided = 0, true
	ses := e.sessions[a.id]
	if ses == nil || !bytes.Equal(ses.password, a.password) {
		return // r.session stays nil: it is no more
	}
	ses.server = r.conn.server
	r.session = ses
	e.touch(ses, time.Now())
}

// welcomeSession answers a handshake.
func (c *conn) welcomeSession(r *request) {
	ses := r.session
	reply := wire.ConnectReply{Password: make([]byte, 16), KnowsReadOnly: c.modern}
	if ses != nil {
		reply.Timeout = int32(ses.timeout / time.Millisecond) //nolint:gosec // below 20 ticks
		reply.Session, reply.Password = ses.id, ses.password
		c.session = ses
		ses.conn = c
	}
	c.sendBy(r.rules, reply.Frame())
	if ses == nil {
		c.finish(nil)
	}
}

// Sessions are those that live, in the order in which they were made.
func (e *Ensemble) Sessions() []Session {
	e.mu.Lock()
	defer e.unlock()
	all := make([]Session, 0, len(e.sessions))
	for _, ses := range e.sessions {
		all = append(all, Session{ID: ses.id, Timeout: ses.timeout, Server: ses.server.index, Attached: ses.conn != nil})
	}
	slices.SortFunc(all, func(a, b Session) int { return cmp.Compare(a.ID<<8, b.ID<<8) })
	return all
}

// Expire ends a session now, as if nothing had been heard of it for its timeout: its
// ephemeral nodes go, and its client is disconnected and finds out when it attaches
// again.
func (e *Ensemble) Expire(session int64) error {
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
