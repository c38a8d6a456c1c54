// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// sendDueHeartbeat sends a heartbeat if one is due. It returns how long the owner may sleep.
func (s *Session) sendDueHeartbeat(now time.Time) time.Duration {
	timeout := s.Timeout()
	next := timeout
	held, granted := s.Nodes.Count()
	if held > 0 && s.IsServed() {
		interval := s.interval(granted)
		checked, wanted, wait := s.heartbeats.begin(now, interval, func(first []*nodes.Node) []*nodes.Node {
			return s.Nodes.NextChecks(now.Add(-s.period()), first)
		})
		switch {
		case len(checked) > 0:
			next = min(interval, s.patience())
			s.sendHeartbeat(now, checked, wanted)
		case wait > 0:
			next = wait
		}
	}
	if granted > 0 {
		// Timers stand still while the machine is suspended: the owner wakes more
		// often to read the wall clock.
		next = min(next, timeout/24, max(s.lease.Left(now), time.Millisecond))
	}
	return next
}

// sendHeartbeat sends a heartbeat, on a goroutine of the session. Its answer is reported with
// the time that was left until the deadline before the answer moved it.
func (s *Session) sendHeartbeat(sent time.Time, checked []*nodes.Node, wanted []*proofRequest) {
	deadline := s.lease.Deadline()
	_, granted := s.Nodes.Count()
	// An error means that the session is over and needs no heartbeat.
	_ = s.spawn(func() {
		_, err := callWithoutTurn(s, func(conn *zk.Conn) (struct{}, error) { return struct{}{}, s.Check(conn, checked) })
		deadline = later(deadline, s.heartbeats.moved(s.lease.Deadline())) // by the heartbeat before
		again := s.mayRepeat(err)
		var next time.Time
		switch {
		case errors.Is(err, sentinel.ErrDeleted):
			next = time.Now() // the failed check proves nothing about the other nodes
			again = true
		case errors.Is(err, errReleased):
			next = time.Now().Add(s.Timeout() / 48)
			again = true
		case err == nil:
			s.heartbeats.hasten(s.interval(granted))
		}
		if again {
			s.heartbeats.end(wanted, next)
		} else {
			s.heartbeats.end(nil, next)
			for _, w := range wanted {
				w.err = err
				close(w.answered)
			}
		}
		held, _ := s.Nodes.Count()
		s.events.Heartbeat(time.Since(sent), err)
		if err == nil && granted > 0 {
			s.events.Proved(max(0, time.Until(deadline)), s.Timeout())
		}
		s.alarm.Ring()
		if held > len(checked) || errors.Is(err, sentinel.ErrDeleted) {
			s.watchOwn()
		}
	})
}

// Prove waits until a quorum has answered a heartbeat, sent after the call began, that
// proves that the session lives and the node exists. Its error wraps ErrDeleted if the node
// was deleted or overwritten. Contenders that call Prove at the same time share one heartbeat.
func (s *Session) Prove(ctx context.Context, n *nodes.Node) error {
	asked := s.heartbeats.ask(n)
	s.alarm.Ring()
	err := sentinel.ErrDeleted
	select {
	case <-asked.answered:
		if asked.err != nil {
			return s.Fail("check", n.Path, asked.err)
		}
		return nil
	case <-n.Lost():
	case <-s.ctx.Done():
		err = s.Ended()
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.heartbeats.withdraw(asked)
	return s.Fail("check", n.Path, err)
}

// watchOwn watches the held nodes, because heartbeats may take long to check them all. If a
// node is already missing, what was granted on it ends, as after a later deletion.
func (s *Session) watchOwn() {
	// An error means that the session is over.
	_ = Each(s, s.Nodes.Unwatched(), func(p *nodes.Node) {
		_, err := s.Watch(s.ctx, p.Path, WatchNode)
		if err != nil {
			s.Nodes.Unwatch(p)
		}
		if errors.Is(err, zk.ErrNoNode) {
			s.MarkLost(p)
		}
	})
}

// errReleased reports that a node was released while it was being checked. It proves
// nothing about the other nodes.
var errReleased = errors.New("node released during the check")

// Check sends one quorum write that changes nothing. It succeeds if the session is alive
// and all of checked exist; its success is a proof. It takes no turn.
func (s *Session) Check(conn *zk.Conn, checked []*nodes.Node) error {
	if len(checked) == 0 {
		// The leader carries out an empty transaction without checking the session.
		return errReleased
	}
	for {
		err := s.checkVersions(conn, checked)
		if !errors.Is(err, errRewritten) {
			return err
		}
	}
}

// errRewritten reports that the session itself had written a node since its version was read.
var errRewritten = errors.New("node rewritten during the check")

// checkVersions is one attempt of Check.
func (s *Session) checkVersions(conn *zk.Conn, checked []*nodes.Node) error {
	ops := make([]any, len(checked))
	for i, p := range checked {
		ops[i] = &zk.CheckVersionRequest{Path: p.Path, Version: p.Version()}
	}
	results, err := conn.Multi(ops...)
	if err == nil || errors.Is(err, zk.ErrSessionExpired) {
		return err
	}
	switch OutcomeOf(err) {
	case Unsent:
		return err
	case Unknown:
		return fmt.Errorf("%w: %w", sentinel.ErrUncertain, err)
	}
	for i, r := range results {
		if i < len(checked) && (errors.Is(r.Error, zk.ErrNoNode) || errors.Is(r.Error, zk.ErrBadVersion)) {
			return s.checkFailed(checked[i], r.Error)
		}
	}
	return err
}

// checkFailed ends what was granted on a node that a check found missing or overwritten.
// It returns the error of that check.
func (s *Session) checkFailed(n *nodes.Node, err error) error {
	if !errors.Is(err, zk.ErrBadVersion) {
		if !s.MarkLost(n) {
			return errReleased
		}
		return s.Fail("check", n.Path, &LossError{Cause: sentinel.ErrDeleted, Err: err})
	}
	was, cause := s.MarkOverwritten(n)
	switch {
	case cause == nil:
		return errRewritten
	case !was:
		return errReleased
	}
	return s.Fail("check", n.Path, &LossError{cause, err})
}

// period returns the time from one heartbeat to the next.
func (s *Session) period() time.Duration {
	if d := s.config.Heartbeat; d > 0 {
		return d
	}
	return s.Timeout() / 6
}

// interval returns the time from one heartbeat to the next, half a period while grants depend on a proof that was sent after
// a silence: the deadline counts the silence for as long as it is less than T/4 past, and would leave no time to ride out a
// fault that begins before the next heartbeat. T/48 allows for timers and for the resolution of package deadline.
func (s *Session) interval(granted int) time.Duration {
	period := s.period()
	if granted > 0 && s.lease.Gap() > period+s.Timeout()/48 {
		return period / 2
	}
	return period
}

// scheduleHeartbeat makes the owner send a heartbeat, if one is due, T/48 from now at the
// earliest: the node's creation was a proof, and a node that is released immediately needs
// no other.
func (s *Session) scheduleHeartbeat() {
	s.alarm.By(later(time.Now().Add(s.Timeout()/48), s.heartbeats.due()))
}

// Joined records that the node exists, as Nodes.Joined does. The first one that is held makes the owner send heartbeats.
func (s *Session) Joined(n *nodes.Node) {
	if s.Nodes.Joined(n, time.Now()) {
		s.scheduleHeartbeat()
	}
}
