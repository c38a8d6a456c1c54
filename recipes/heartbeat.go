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

// period is the time from one heartbeat to the next.
func (s *session) period() time.Duration {
	if d := s.settings.tuning.Heartbeat; d > 0 {
		return d
	}
	return s.timeout() / 6
}

// lookForBeat has heartbeats begin, if one is due, for a place that is held for
// longer than a moment: its creation was a proof, and one that is released at once
// needs no other.
func (s *session) lookForBeat() {
	by := time.Now().Add(s.timeout() / 48)
	s.mu.Lock()
	if s.beat.next.After(by) {
		by = s.beat.next
	}
	s.mu.Unlock()
	s.alarm.By(by)
}
