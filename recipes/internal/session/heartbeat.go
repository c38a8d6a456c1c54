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
	next := timeout
	_, held, granted := s.nodes.count()
	if held > 0 && s.IsServed() {
		nodes, wanted, wait := s.beats.begin(now, s.period(), func(first []*Node) []*Node {
			return s.nodes.picks(now.Add(-s.period()), first)
		})
		switch {
		case len(nodes) > 0:
			next = timeout / 8
			s.sendBeat(now, nodes, wanted)
		case wait > 0:
			next = wait
		}
	}
	if granted > 0 {
		// Timers stand still while a machine is suspended: the wall clock is
		// looked at between them.
		next = min(next, timeout/24, max(s.lease.Left(now), time.Millisecond))
	}
	return next
}

// sendBeat sends a heartbeat, on a goroutine of the session.
func (s *Session) sendBeat(sent time.Time, nodes []*Node, wanted []*proofAsked) {
	// An error says that the session is over: nobody needs it.
	_ = s.spawn(func() {
		_, err := urgently(s, func(conn *zk.Conn) (struct{}, error) { return struct{}{}, s.Check(conn, nodes) })
		again := BrokenOff(err) || s.givenBack(err)
		var next time.Time
		switch {
		case errors.Is(err, ErrDeleted):
			next = time.Now() // one node less does not mean that the others were checked
			again = true
		case errors.Is(err, errParted):
			next = time.Now().Add(s.Timeout() / 48)
			again = true
		}
		if again {
			s.beats.end(wanted, next)
		} else {
			s.beats.end(nil, next)
			for _, w := range wanted {
				w.err = err
				close(w.answered)
			}
		}
		_, held, _ := s.nodes.count()
		s.events.Heartbeat(time.Since(sent), err)
		s.alarm.Ring()
		if held > len(nodes) || errors.Is(err, ErrDeleted) {
			s.watchOwn()
		}
	})
}

// Prove returns once a quorum has answered, after the call began, that the session
// lives and the node exists; or with an error that wraps ErrDeleted. Contenders
// that need it at the same time share the answer, and the heartbeat that brings it.
func (s *Session) Prove(ctx context.Context, n *Node) error {
	asked := s.beats.ask(n)
	s.alarm.Ring()
	err := ErrDeleted
	select {
	case <-asked.answered:
		if asked.err != nil {
			return s.fail("check", n.Path, asked.err)
		}
		return nil
	case <-n.bereaved:
	case <-s.ctx.Done():
		err = s.Ended()
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.beats.withdraw(asked)
	return s.fail("check", n.Path, err)
}

// watchOwn watches the nodes that heartbeats may take long to come to. A node that is
// missing by then ends what stands on it, as one that is deleted later does.
func (s *Session) watchOwn() {
	nodes := s.nodes.unwatched()
	// An error says that the session is over.
	_ = Each(s, nodes, func(p *Node) {
		_, err := s.Watch(s.ctx, p.Path, WatchNode)
		if err != nil {
			s.nodes.unwatch(p)
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
	s.alarm.By(later(time.Now().Add(s.Timeout()/48), s.beats.due()))
}

// Joined notes that the node exists, for a caller that still wants it.
func (s *Session) Joined(n *Node) {
	if s.nodes.joined(n) {
		s.lookForBeat()
	}
}
