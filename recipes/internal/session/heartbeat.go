// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// tendBeat sends a heartbeat if one is due. It returns when to look again.
func (s *Session) tendBeat(now time.Time) time.Duration {
	timeout := s.Timeout()
	s.mu.Lock()
	holding := len(s.granted) > 0
	b := &s.beat
	next := timeout
	var nodes []*Node
	var wanted []*proofAsked
	switch {
	case len(s.nodes.held) == 0:
	case b.inFlight || !s.isAttached: // its end wakes the owner
	case len(b.wanted) > 0 || !now.Before(b.next):
		nodes, wanted = s.pick(now)
		b.next, b.inFlight = now.Add(s.period()), true
		next = timeout / 8
	default:
		next = b.next.Sub(now)
	}
	s.mu.Unlock()

	if nodes != nil {
		s.sendBeat(now, nodes, wanted)
	}
	if holding {
		// Timers stand still while a machine is suspended: the wall clock is
		// looked at between them.
		next = min(next, timeout/24, max(s.lease.Left(now), time.Millisecond))
	}
	return next
}

// pick returns the nodes that the next heartbeat checks, and who is answered by it.
// The caller holds mu.
func (s *Session) pick(now time.Time) (nodes []*Node, wanted []*proofAsked) {
	b := &s.beat
	first := make([]*Node, 0, min(len(b.wanted), MaxChecks))
	for _, w := range b.wanted {
		if !w.gone && len(first) < MaxChecks {
			first = append(first, w.node)
		}
	}
	nodes = s.nodes.picks(now.Add(-s.period()), first)
	covered := make(map[*Node]bool, len(nodes))
	for _, p := range nodes {
		covered[p] = true
	}
	rest := b.wanted[:0]
	for _, w := range b.wanted {
		switch {
		case w.gone:
		case covered[w.node]:
			wanted = append(wanted, w)
		default:
			rest = append(rest, w)
		}
	}
	clear(b.wanted[len(rest):])
	b.wanted = rest
	return nodes, wanted
}

// sendBeat sends a heartbeat, on a goroutine of the session.
func (s *Session) sendBeat(sent time.Time, nodes []*Node, wanted []*proofAsked) {
	timeout := s.Timeout()
	err := s.spawn(func() {
		_, err := urgently(s, func(conn *zk.Conn) (struct{}, error) { return struct{}{}, s.Check(conn, nodes) })
		again := BrokenOff(err) || s.givenBack(err)
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
		crowded := len(s.nodes.held) > len(nodes)
		s.mu.Unlock()
		if !again {
			for _, w := range wanted {
				w.err = err
				close(w.answered)
			}
		}
		s.events.Heartbeat(time.Since(sent), err)
		s.alarm.Ring()
		if crowded || errors.Is(err, ErrDeleted) {
			s.watchOwn()
		}
	})
	if err != nil {
		return // over: nobody needs it
	}
}

// Prove returns once a quorum has answered, after the call began, that the session
// lives and the node exists; or with an error that wraps ErrDeleted. Contenders
// that need it at the same time share the answer, and the heartbeat that brings it.
func (s *Session) Prove(ctx context.Context, p *Node) error {
	asked := &proofAsked{node: p, answered: make(chan struct{})}
	s.mu.Lock()
	s.beat.wanted = append(s.beat.wanted, asked)
	s.mu.Unlock()
	s.alarm.Ring()
	fail := func(err error) error {
		s.mu.Lock()
		asked.gone = true
		s.mu.Unlock()
		return s.fail("check", p.Path, err)
	}
	select {
	case <-asked.answered:
		if asked.err != nil {
			return s.fail("check", p.Path, asked.err)
		}
		return nil
	case <-p.bereaved:
		return fail(ErrDeleted)
	case <-s.ctx.Done():
		return fail(s.Ended())
	case <-ctx.Done():
		return fail(ctx.Err())
	}
}

// watchOwn watches the nodes that heartbeats may take long to come to. A node that is
// missing by then ends what stands on it, as one that is deleted later does.
func (s *Session) watchOwn() {
	s.mu.Lock()
	nodes := s.nodes.unwatched()
	s.mu.Unlock()
	// An error says that the session is over.
	_ = Each(s, nodes, func(p *Node) {
		_, err := s.Watch(s.ctx, p.Path, WatchNode)
		if err != nil {
			s.mu.Lock()
			p.watched = false
			s.mu.Unlock()
		}
		if errors.Is(err, zk.ErrNoNode) {
			s.Lost(p)
		}
	})
}

// errParted says that a node was released while it was being checked. It says
// nothing about the others.
var errParted = errors.New("a node was released meanwhile")

// Check sends one quorum write that changes nothing: it succeeds if the session is
// alive and all the nodes exist, and is then a proof. It takes no turn.
func (s *Session) Check(conn *zk.Conn, nodes []*Node) error {
	if len(nodes) == 0 {
		// An empty transaction is carried out without a look at the session.
		return errParted
	}
	ops := make([]any, len(nodes))
	for i, p := range nodes {
		ops[i] = &zk.CheckVersionRequest{Path: p.Path, Version: 0}
	}
	results, err := conn.Multi(ops...)
	if err == nil || errors.Is(err, zk.ErrSessionExpired) {
		return err
	}
	if OutcomeOf(err) != Refused {
		return fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	for i, r := range results {
		if i < len(nodes) && (errors.Is(r.Error, zk.ErrNoNode) || errors.Is(r.Error, zk.ErrBadVersion)) {
			return s.checkFailed(nodes[i], r.Error)
		}
	}
	return err
}

// checkFailed ends what stands on a node that a check found missing, or written to. It
// returns the error of that check.
func (s *Session) checkFailed(n *Node, err error) error {
	if !s.Lost(n) {
		return errParted
	}
	return s.fail("check", n.Path, fmt.Errorf("%w: %w", ErrDeleted, err))
}

// period is the time from one heartbeat to the next.
func (s *Session) period() time.Duration {
	if d := s.config.Heartbeat; d > 0 {
		return d
	}
	return s.Timeout() / 6
}

// lookForBeat has heartbeats begin, if one is due, for a node that is held for
// longer than a moment: its creation was a proof, and one that is released at once
// needs no other.
func (s *Session) lookForBeat() {
	by := time.Now().Add(s.Timeout() / 48)
	s.mu.Lock()
	if s.beat.next.After(by) {
		by = s.beat.next
	}
	s.mu.Unlock()
	s.alarm.By(by)
}

// Joined notes that the node exists, for a caller that still wants it.
func (s *Session) Joined(n *Node) {
	s.mu.Lock()
	only := s.nodes.joined(n)
	s.mu.Unlock()
	if only {
		s.lookForBeat()
	}
}
