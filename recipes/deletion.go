// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

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

// deleteLater has the owner delete the node of a claim whose deadline has passed. The
// session may well live, and the work needs time to stop: not before T/4 from now,
// unless the holder says that it has stopped.
func (s *session) deleteLater(p *place) {
	s.mu.Lock()
	if !p.stopped {
		p.notBefore = time.Now().Add(s.timeout() / 4)
	}
	s.ledger.leave(p)
	s.mu.Unlock()
	s.alarm.Ring()
}

// hasten has the owner delete the node now: the work has stopped.
func (s *session) hasten(p *place) {
	s.mu.Lock()
	p.stopped = true
	if p.failures == 0 {
		p.notBefore = time.Time{}
	}
	s.mu.Unlock()
	s.alarm.Ring()
}

// clearAll deletes the nodes of places, up to maxInFlight at a time, and looks for those
// that are not known: once for all that may be below the same parent.
func (s *session) clearAll(ctx context.Context, places []*place) {
	unknown := make(map[string][]*place)
	known := make([]*place, 0, len(places))
	for _, p := range places {
		if p.path == "" {
			unknown[p.line] = append(unknown[p.line], p)
		} else {
			known = append(known, p)
		}
	}
	for line, places := range unknown {
		members, err := s.search(ctx, line, places)
		for _, p := range places {
			m, found := members[p.nonce]
			switch {
			case err != nil:
				s.postpone(p, err)
			case !found:
				s.cleared(p)
			default:
				s.settle(p, m)
				known = append(known, p)
			}
		}
	}
	// An error says that the session is over: its nodes die with it.
	_ = each(s, known, func(p *place) {
		if _, err := s.erase(ctx, p, contender); err != nil {
			s.postpone(p, err)
		}
	})
}

// settle notes which node is that of a place whose create was not answered.
func (s *session) settle(p *place, m member) {
	p.path, p.member = p.line+"/"+m.name, m
	s.mu.Lock()
	s.ledger.joined(p)
	s.mu.Unlock()
}

// erase deletes the place's node. existed is false if it was gone before.
//
// While it has not succeeded the node stays in the ledger; its caller leaves the rest
// to the owner.
func (s *session) erase(ctx context.Context, p *place, as role) (existed bool, err error) {
	request := func(conn *zk.Conn) (struct{}, error) { return struct{}{}, conn.Delete(p.path, -1) }
	tried := false
	for {
		var err error
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < s.timeout()/4 {
			_, err = callAs(ctx, s, as, request)
		} else {
			_, err = callThrough(ctx, s, as, request)
		}
		switch over := s.ended(); {
		case err == nil:
			s.cleared(p)
			return true, nil
		case errors.Is(err, zk.ErrNoNode):
			s.cleared(p)
			// After an attempt that was not answered, it is that attempt that did it.
			return tried, nil
		case errors.Is(over, errExpired):
			return true, nil // the node went with the session
		case over != nil:
			return tried, &Error{Op: "delete", Path: p.path, Err: over}
		case !s.again(ctx, err):
			return tried, &Error{Op: "delete", Path: p.path, Err: err}
		}
		tried = true
	}
}

// discard deletes the node of a place that its caller does not want any more, and
// waits for that while a server serves the session, for limit at most. The owner does
// what is left.
func (s *session) discard(p *place, limit time.Duration) {
	s.mu.Lock()
	served, detach := s.isAttached, s.detach
	known := s.ledger.part(p)
	s.mu.Unlock()
	if !known || !served {
		s.leave(p)
	}
	if !served {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	if known {
		err := s.spawn(func() {
			_, err := call(ctx, s, func(conn *zk.Conn) (struct{}, error) { return struct{}{}, conn.Delete(p.path, -1) })
			if err == nil || errors.Is(err, zk.ErrNoNode) {
				s.cleared(p)
				return
			}
			s.postpone(p, err)
			cancel() // the owner tries again, and nobody waits for it
		})
		if err != nil {
			return // over: its nodes die with it
		}
	}
	select {
	case <-p.gone:
	case <-detach:
	case <-ctx.Done():
	}
}

// postpone has the owner delete the place's node after a deletion that has failed.
// What a server answers with an error, of whatever kind, it may go on answering with
// it: the owner backs off, for this node alone.
func (s *session) postpone(p *place, err error) {
	s.mu.Lock()
	if s.over != nil || p.standing == cleared {
		s.mu.Unlock()
		return
	}
	if !brokenOff(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		pause := min(s.timeout()/3<<min(p.failures, 4), maxPause)
		p.notBefore = later(p.notBefore, time.Now().Add(pause))
		p.failures++
	}
	s.ledger.leave(p)
	s.mu.Unlock()
	s.report.owed(p, err)
	s.alarm.Ring()
}

// maxPause bounds the pause between two attempts to delete one node.
const maxPause = time.Minute

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
