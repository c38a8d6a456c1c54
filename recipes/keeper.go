// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// maxChecks bounds how many nodes one heartbeat checks. Any of them proves the
// session; with more nodes than fit, they take turns, and watches tell which of
// them to check at once.
const maxChecks = 128

// A beatState is where a session's heartbeats stand. Guarded by session.mu.
type beatState struct {
	inFlight bool      // it was not answered yet
	next     time.Time // when the next one is due
}

// keep does what the session owes to its claims and waiters, until it is over:
// it ends claims at the deadline, sends heartbeats, leaves servers that do not
// answer, has nodes deleted that are owed, and gives up a session that no server
// has served for so long that it cannot be alive. It waits for nothing but its
// own clock, so that a deadline is never missed for the sake of I/O.
func (s *session) keep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
		case <-timer.C:
		}
		now := time.Now()
		s.mu.Lock()
		// Whoever asks to be looked after from here on wakes the keeper again: what
		// is read below may not show them yet.
		s.nextLook = now.Add(time.Hour)
		s.mu.Unlock()
		s.lapse(now)
		next := min(s.tendWire(now), s.tendBeat(now), s.tendLedger(now), s.tendAttachment(now))
		s.mu.Lock()
		if s.lookBy.After(now) {
			next = min(next, s.lookBy.Sub(now))
		}
		s.nextLook = now.Add(next)
		s.mu.Unlock()
		timer.Reset(next)
	}
}

// lapse ends the claims if the session may no longer be believed to live. Their
// nodes are owed: the session may well live.
func (s *session) lapse(now time.Time) {
	if s.trust.left(now) > 0 {
		return
	}
	s.mu.Lock()
	claims := s.takeClaims()
	s.mu.Unlock()
	for _, c := range endAll(claims, ErrDeadline) {
		s.owe(c)
	}
}

// endAll ends claims, and returns those that had not ended before.
func endAll(claims []*Claim, cause error) []*Claim {
	ended := claims[:0]
	for _, c := range claims {
		if c.end(cause) {
			ended = append(ended, c)
		}
	}
	return ended
}

// owe has the node of a claim deleted whose deadline has passed; but the session
// may well live, and the work needs time to stop: not before T/4 from now, unless
// its holder says that it has.
func (s *session) owe(c *Claim) {
	s.ledger.keep(c.place, time.Now().Add(s.timeout()/4))
	s.ledger.leave(c.place)
	s.report.lost(c, ErrDeadline)
}

// tendWire leaves a server that has answered nothing for T/8 of what it was asked.
// The ZooKeeper client would wait for 2T/3, and a holder that waits so long loses
// its claims. It returns when to look again: a call that begins before that has
// the keeper look in time.
func (s *session) tendWire(now time.Time) time.Duration {
	timeout := s.timeout()
	s.mu.Lock()
	w, serving := s.wire, s.isAttached
	s.mu.Unlock()
	if !serving {
		return timeout
	}
	asked, silent := w.silentFor(now)
	switch {
	case !asked:
		return timeout
	case silent >= timeout/8:
		w.sever()
		return timeout
	}
	return timeout/8 - silent
}

// tendBeat sends a heartbeat if one is due. It returns when to look again.
func (s *session) tendBeat(now time.Time) time.Duration {
	timeout := s.timeout()
	anyHeld := s.ledger.anyHeld()
	s.mu.Lock()
	holding := len(s.claims) > 0
	b := &s.beat
	next := timeout
	send := false
	switch {
	case !anyHeld:
	case b.inFlight || !s.isAttached: // its end wakes the keeper
	case !now.Before(b.next):
		send = true
		b.next, b.inFlight = now.Add(timeout/6), true
		next = timeout / 8
	default:
		next = b.next.Sub(now)
	}
	s.mu.Unlock()

	if send {
		s.sendBeat(now, timeout)
	}
	if holding {
		// Timers stand still while a machine is suspended: the wall clock is
		// looked at between them.
		next = min(next, timeout/24, max(s.trust.left(now), time.Millisecond))
	}
	return next
}

// sendBeat sends a heartbeat, on a goroutine of its own.
func (s *session) sendBeat(sent time.Time, timeout time.Duration) {
	places, all := s.ledger.standing(sent.Add(-timeout/6), maxChecks)
	err := s.spawn(func() {
		err := s.check(places, sent)
		s.mu.Lock()
		s.beat.inFlight = false
		switch {
		case errors.Is(err, ErrDeleted):
			s.beat.next = time.Now() // one node less does not mean that the others were checked
		case errors.Is(err, errParted):
			s.beat.next = time.Now().Add(timeout / 48)
		}
		s.mu.Unlock()
		s.report.heartbeat(time.Since(sent), err)
		s.poke()
		if all > maxChecks {
			s.watchOwn()
		}
	})
	if err != nil {
		return // over: nobody needs it
	}
}

// watchOwn watches the nodes that heartbeats may take long to come to.
func (s *session) watchOwn() {
	for _, p := range s.ledger.unwatched() {
		_, err := s.watch(s.ctx, p.path, watchNode)
		if err != nil {
			s.ledger.unwatch(p)
		}
		if errors.Is(err, zk.ErrNoNode) && s.ledger.suspect(p.path) {
			s.hurryBeat()
		}
	}
}

// hurryBeat has the next heartbeat sent at once.
func (s *session) hurryBeat() {
	s.mu.Lock()
	s.beat.next = time.Time{}
	s.mu.Unlock()
	s.poke()
}

// errParted says that a node was released while it was being checked. It says
// nothing about the others.
var errParted = errors.New("a node was released meanwhile")

// check is one quorum write that changes nothing: it succeeds if the session is
// alive and all the nodes exist, and is then a proof.
func (s *session) check(places []*place, sent time.Time) error {
	if len(places) == 0 {
		// An empty transaction is carried out without a look at the session.
		return errParted
	}
	ops := make([]any, len(places))
	for i, p := range places {
		ops[i] = &zk.CheckVersionRequest{Path: p.path, Version: 0}
	}
	results, err := s.conn.Multi(ops...)
	if err == nil {
		s.trust.proof(sent, time.Now())
		return nil
	}
	if outcomeOf(err) != refused {
		return fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	if errors.Is(err, zk.ErrSessionExpired) {
		s.end(errExpired)
		return errExpired
	}
	for i, r := range results {
		if i < len(places) && (errors.Is(r.Error, zk.ErrNoNode) || errors.Is(r.Error, zk.ErrBadVersion)) {
			if !s.ledger.isHeld(places[i]) && !s.isBereaved(places[i]) {
				return errParted
			}
			s.bereave(places[i])
			return &Error{Op: "check", Path: places[i].path, Err: fmt.Errorf("%w: %w", ErrDeleted, r.Error)}
		}
	}
	return err
}

// isBereaved says whether bereave was called: by another check, at the same time.
func (s *session) isBereaved(p *place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.orphaned
}

// bereave ends what stood on a node that somebody else deleted or wrote to.
func (s *session) bereave(p *place) {
	s.mu.Lock()
	if p.orphaned {
		s.mu.Unlock()
		return
	}
	p.orphaned = true
	c := p.claim
	if c != nil {
		delete(s.claims, c)
	}
	s.mu.Unlock()
	if c != nil && c.end(ErrDeleted) {
		s.report.lost(c, ErrDeleted)
	}
	// If it was written to, it is still there, and owed.
	s.ledger.leave(p)
	close(p.bereaved)
	s.poke()
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
	s.mu.Unlock()
	if attached {
		return timeout
	}
	// What had been sent was failed with the connection. What is still waited for
	// was not sent, and nobody knows for how long it would have to wait.
	if through && since >= timeout/8 {
		s.dialer.giveBack()
	}
	left := s.trust.left(now)
	mute := left <= 0 && since >= timeout/3 && s.ledger.size() > 0 && s.dialer.isMute()
	if mute || since >= 2*timeout {
		s.end(errGivenUp)
		return timeout
	}
	next := timeout / 24
	if left > 0 && !through {
		next = left
	}
	return min(next, 2*timeout-since)
}

// tendLedger has the nodes deleted that are owed, one sweep at a time.
func (s *session) tendLedger(now time.Time) time.Duration {
	timeout := s.timeout()
	if !s.isServed() {
		return timeout
	}
	owed, wait := s.ledger.startSweep(now)
	if len(owed) == 0 {
		return min(timeout, wait)
	}
	err := s.spawn(func() {
		ctx, cancel := context.WithTimeout(s.ctx, timeout)
		defer cancel()
		var notUntil time.Time
		for _, p := range owed {
			if err := s.clear(ctx, p); err != nil {
				// The server may go on refusing: not faster than this.
				notUntil = time.Now().Add(timeout / 3)
				s.report.owed(p, err)
			}
		}
		s.ledger.endSweep(notUntil)
		s.poke()
	})
	if err != nil {
		s.ledger.endSweep(now) // over: its nodes die with it
	}
	return timeout
}
