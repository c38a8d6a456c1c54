// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// One heartbeat checks as many nodes as fit below both bounds: a server drops the
// connection over a packet larger than its jute.maxbuffer. Any node proves the session;
// with more than fit they take turns, and watches tell of those that are deleted.
const (
	maxChecks     = 128
	maxCheckBytes = 64 << 10
)

// A beatState is where a session's heartbeats stand. Guarded by session.mu.
type beatState struct {
	inFlight bool          // it was not answered yet
	next     time.Time     // when the next one is due
	wanted   []*proofAsked // by contenders that wait for a quorum's answer
}

// A proofAsked is a contender that waits for a quorum's answer as to its node.
type proofAsked struct {
	place    *place
	answered chan struct{} // closed when a heartbeat has covered the place
	err      error         // why none can; set before answered is closed
	gone     bool          // its caller has gone; guarded by session.mu
}

// own does what the session is to do for its claims and waiters, until it is over. It
// ends claims at the deadline, sends heartbeats, leaves servers that do not answer, has
// nodes deleted, and gives up a session that no server has served for so long that it
// cannot be alive. All that it decides on is guarded by session.mu; it waits for nothing
// but its own clock, and starts what may block on other goroutines, so that no deadline
// is missed for the sake of I/O.
func (s *session) own() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.alarm.Rings():
		case <-timer.C:
		}
		now := time.Now()
		s.alarm.Begin(now)
		s.lapse(now)
		next := min(s.tendWire(now), s.tendBeat(now), s.tendLedger(now), s.tendAttachment(now))
		timer.Reset(s.alarm.End(now, next))
	}
}

// lapse ends the claims if the session may no longer be believed to live.
func (s *session) lapse(now time.Time) {
	if s.lease.Left(now) > 0 {
		return
	}
	s.mu.Lock()
	claims := s.takeClaims()
	s.mu.Unlock()
	for _, c := range endAll(claims, ErrDeadline, (*Claim).endElsewhere) {
		s.deleteLater(c.place)
		s.report.lost(c, ErrDeadline)
	}
}

// endAll ends claims by one of their methods, and returns those that had not ended before.
func endAll(claims []*Claim, cause error, end func(*Claim, error) bool) []*Claim {
	ended := claims[:0]
	for _, c := range claims {
		if end(c, cause) {
			ended = append(ended, c)
		}
	}
	return ended
}

// tendWire leaves a server that has answered nothing for T/8 of what it was asked.
// The ZooKeeper client would wait for 2T/3, and a holder that waits so long loses its
// claims. But a session whose every server is slow keeps the one that it has: see
// [dialer.mayLeave]. It returns when to look again: a request that begins before that
// has the owner look in time.
func (s *session) tendWire(now time.Time) time.Duration {
	timeout := s.timeout()
	s.mu.Lock()
	w, serving := s.wire, s.isAttached
	s.mu.Unlock()
	if !serving {
		return timeout
	}
	asked, silent := w.SilentFor(now)
	switch {
	case !asked:
		return timeout
	case silent < timeout/8:
		return timeout/8 - silent
	}
	if wait := s.dialer.mayLeave(now); wait > 0 {
		return wait
	}
	w.Sever()
	return timeout
}

// tendBeat sends a heartbeat if one is due. It returns when to look again.
func (s *session) tendBeat(now time.Time) time.Duration {
	timeout := s.timeout()
	s.mu.Lock()
	holding := len(s.claims) > 0
	b := &s.beat
	next := timeout
	var places []*place
	var wanted []*proofAsked
	switch {
	case len(s.ledger.held) == 0:
	case b.inFlight || !s.isAttached: // its end wakes the owner
	case len(b.wanted) > 0 || !now.Before(b.next):
		places, wanted = s.pick(now)
		b.next, b.inFlight = now.Add(s.period()), true
		next = timeout / 8
	default:
		next = b.next.Sub(now)
	}
	s.mu.Unlock()

	if places != nil {
		s.sendBeat(now, places, wanted)
	}
	if holding {
		// Timers stand still while a machine is suspended: the wall clock is
		// looked at between them.
		next = min(next, timeout/24, max(s.lease.Left(now), time.Millisecond))
	}
	return next
}

// pick returns the places that the next heartbeat checks, and who is answered by it.
// The caller holds mu.
func (s *session) pick(now time.Time) (places []*place, wanted []*proofAsked) {
	b := &s.beat
	first := make([]*place, 0, min(len(b.wanted), maxChecks))
	for _, w := range b.wanted {
		if !w.gone && len(first) < maxChecks {
			first = append(first, w.place)
		}
	}
	places = s.ledger.picks(now.Add(-s.period()), first)
	covered := make(map[*place]bool, len(places))
	for _, p := range places {
		covered[p] = true
	}
	rest := b.wanted[:0]
	for _, w := range b.wanted {
		switch {
		case w.gone:
		case covered[w.place]:
			wanted = append(wanted, w)
		default:
			rest = append(rest, w)
		}
	}
	clear(b.wanted[len(rest):])
	b.wanted = rest
	return places, wanted
}

// sendBeat sends a heartbeat, on a goroutine of the session.
func (s *session) sendBeat(sent time.Time, places []*place, wanted []*proofAsked) {
	timeout := s.timeout()
	err := s.spawn(func() {
		_, err := urgently(s, func(conn *zk.Conn) (struct{}, error) { return struct{}{}, s.check(conn, places) })
		again := brokenOff(err) || s.givenBack(err)
		s.mu.Lock()
		b := &s.beat
		b.inFlight = false
		switch {
		case errors.Is(err, ErrDeleted):
			b.next = time.Now() // one node less does not mean that the others were checked
			again = true
		case errors.Is(err, errParted):
			b.next = time.Now().Add(timeout / 48)
			again = true
		}
		if again {
			b.wanted = append(b.wanted, wanted...)
		}
		crowded := len(s.ledger.held) > len(places)
		s.mu.Unlock()
		if !again {
			for _, w := range wanted {
				w.err = err
				close(w.answered)
			}
		}
		s.report.heartbeat(time.Since(sent), err)
		s.alarm.Ring()
		if crowded || errors.Is(err, ErrDeleted) {
			s.watchOwn()
		}
	})
	if err != nil {
		return // over: nobody needs it
	}
}

// prove returns once a quorum has answered, after the call began, that the session
// lives and the place's node exists; or with an error that wraps ErrDeleted. Contenders
// that need it at the same time share the answer, and the heartbeat that brings it.
func (s *session) prove(ctx context.Context, p *place) error {
	asked := &proofAsked{place: p, answered: make(chan struct{})}
	s.mu.Lock()
	s.beat.wanted = append(s.beat.wanted, asked)
	s.mu.Unlock()
	s.alarm.Ring()
	fail := func(err error) error {
		s.mu.Lock()
		asked.gone = true
		s.mu.Unlock()
		return &Error{Op: "check", Path: p.path, Err: err}
	}
	select {
	case <-asked.answered:
		if asked.err != nil {
			return &Error{Op: "check", Path: p.path, Err: asked.err}
		}
		return nil
	case <-p.bereaved:
		return fail(ErrDeleted)
	case <-s.ctx.Done():
		return fail(s.ended())
	case <-ctx.Done():
		return fail(ctx.Err())
	}
}

// watchOwn watches the nodes that heartbeats may take long to come to. A node that is
// missing by then ends its claim, as one that is deleted later does.
func (s *session) watchOwn() {
	s.mu.Lock()
	places := s.ledger.unwatched()
	s.mu.Unlock()
	// An error says that the session is over.
	_ = each(s, places, func(p *place) {
		_, err := s.watch(s.ctx, p.path, watchNode)
		if err != nil {
			s.mu.Lock()
			p.watched = false
			s.mu.Unlock()
		}
		if errors.Is(err, zk.ErrNoNode) {
			s.lost(p)
		}
	})
}

// errParted says that a node was released while it was being checked. It says
// nothing about the others.
var errParted = errors.New("a node was released meanwhile")

// check is one quorum write that changes nothing: it succeeds if the session is
// alive and all the nodes exist, and is then a proof.
func (s *session) check(conn *zk.Conn, places []*place) error {
	if len(places) == 0 {
		// An empty transaction is carried out without a look at the session.
		return errParted
	}
	ops := make([]any, len(places))
	for i, p := range places {
		ops[i] = &zk.CheckVersionRequest{Path: p.path, Version: 0}
	}
	results, err := conn.Multi(ops...)
	if err == nil || errors.Is(err, zk.ErrSessionExpired) {
		return err
	}
	if outcomeOf(err) != refused {
		return fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	for i, r := range results {
		if i < len(places) && (errors.Is(r.Error, zk.ErrNoNode) || errors.Is(r.Error, zk.ErrBadVersion)) {
			if !s.lost(places[i]) {
				return errParted
			}
			return &Error{Op: "check", Path: places[i].path, Err: fmt.Errorf("%w: %w", ErrDeleted, r.Error)}
		}
	}
	return err
}

// lost ends what stood on the place's node, which a server says is missing or was
// written to. It is false if the node was released meanwhile: that it is missing says
// nothing then.
func (s *session) lost(p *place) bool {
	s.mu.Lock()
	was := p.standing == held || p.orphaned
	first := was && !p.orphaned
	p.orphaned = p.orphaned || was
	c := p.claim
	if first && c != nil {
		delete(s.claims, c)
	}
	s.mu.Unlock()
	if !first {
		return was
	}
	if c != nil && c.endElsewhere(ErrDeleted) {
		s.report.lost(c, ErrDeleted)
	}
	// If it was written to, it is still there, and to be deleted.
	s.leave(p)
	close(p.bereaved)
	return true
}

// tendAttachment gives a session up that no server has served for 2 T. It may
// still be alive, on an ensemble that is down as a whole; but it may also be one
// that no server will ever know again, and a client that waits for it would wait
// for ever.
//
// One that has nodes is given up at its deadline if servers take connections and
// answer nothing: where only the way back is cut, each attempt would keep the
// session alive, and its nodes in everybody's way.
func (s *session) tendAttachment(now time.Time) time.Duration {
	timeout := s.timeout()
	s.mu.Lock()
	attached, since, through := s.isAttached, now.Sub(s.detachedSince), s.through > 0
	nodes := len(s.ledger.places) > 0
	outage := !attached && !s.outage && since >= timeout/4
	if outage {
		s.outage = true
	}
	s.mu.Unlock()
	if attached {
		return timeout
	}
	if outage {
		s.report.outage(since, s.dialer.why())
	}
	// What had been sent was failed with the connection. What is still waited for
	// was not sent, and nobody knows for how long it would have to wait.
	if through && since >= timeout/8 {
		s.dialer.giveBack()
	}
	left := s.lease.Left(now)
	mute := left <= 0 && since >= timeout/3 && nodes && s.dialer.isMute()
	if mute || since >= 2*timeout {
		s.end(errGivenUp)
		return timeout
	}
	next := timeout / 24
	if left > 0 && !through {
		next = left
	}
	if since < timeout/4 {
		next = min(next, timeout/4-since)
	}
	return min(next, 2*timeout-since)
}

// tendLedger has the nodes deleted that are to be, up to maxInFlight at a time. It
// returns when to look again.
func (s *session) tendLedger(now time.Time) time.Duration {
	timeout := s.timeout()
	s.mu.Lock()
	if !s.isAttached || s.sweeping {
		s.mu.Unlock()
		return timeout
	}
	due, wait := s.ledger.due(now)
	s.sweeping = len(due) > 0
	s.mu.Unlock()
	if len(due) == 0 {
		return min(timeout, wait)
	}
	err := s.spawn(func() {
		ctx, cancel := context.WithTimeout(s.ctx, timeout)
		defer cancel()
		s.clearAll(ctx, due)
		s.mu.Lock()
		s.sweeping = false
		s.mu.Unlock()
		s.alarm.Ring()
	})
	if err != nil {
		return timeout // over
	}
	return timeout
}
