// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// tendDeletions has the nodes deleted that are to be, up to MaxInFlight at a time. It
// returns when to look again.
func (s *Session) tendDeletions(now time.Time) time.Duration {
	timeout := s.Timeout()
	s.mu.Lock()
	if !s.isAttached || s.sweeping {
		s.mu.Unlock()
		return timeout
	}
	due, wait := s.nodes.due(now)
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

// DeleteLater schedules the deletion of a node whose deadline has passed, T/4 from now: the
// session may well live, and the work needs time to stop. Hasten ends the wait.
func (s *Session) DeleteLater(p *Node) {
	s.nodes.leaveAfter(p, time.Now().Add(s.Timeout()/4))
	s.alarm.Ring()
}

// Hasten has the owner delete the node immediately, if it is to be deleted: the work has
// stopped.
func (s *Session) Hasten(p *Node) {
	s.nodes.hasten(p)
	s.alarm.Ring()
}

// clearAll deletes the nodes, up to MaxInFlight at a time, and looks for those
// that are not known: once for all that may be below the same parent.
func (s *Session) clearAll(ctx context.Context, nodes []*Node) {
	unknown := make(map[string][]*Node)
	known := make([]*Node, 0, len(nodes))
	for _, p := range nodes {
		if p.Path == "" {
			unknown[p.Parent] = append(unknown[p.Parent], p)
		} else {
			known = append(known, p)
		}
	}
	for parent, nodes := range unknown {
		paths, err := s.config.Find(ctx, parent, nodes)
		for _, p := range nodes {
			path, found := paths[p.Nonce]
			switch {
			case err != nil:
				s.postpone(p, err)
			case !found:
				s.Cleared(p)
			default:
				s.settle(p, path)
				known = append(known, p)
			}
		}
	}
	// An error says that the session is over: its nodes die with it.
	_ = Each(s, known, func(p *Node) {
		if _, err := s.Erase(ctx, p, Ordinary); err != nil {
			s.postpone(p, err)
		}
	})
}

// settle notes which node is that of a node whose create was not answered.
func (s *Session) settle(p *Node, path string) {
	p.Path = path
	s.nodes.joined(p)
}

// Erase deletes the node. existed is false if it was gone before.
//
// While it has not succeeded the node stays outstanding; its caller leaves the rest
// to the owner.
func (s *Session) Erase(ctx context.Context, p *Node, as Role) (existed bool, err error) {
	tried := false
	for {
		err := s.delete(ctx, p, as)
		switch over := s.Ended(); {
		case err == nil:
			s.Cleared(p)
			return true, nil
		case errors.Is(err, zk.ErrNoNode):
			s.Cleared(p)
			// After an attempt that was not answered, it is that attempt that did it.
			return tried, nil
		case errors.Is(over, ErrExpired):
			return true, nil // the node went with the session
		case over != nil:
			return tried, s.fail("delete", p.Path, over)
		case !s.again(ctx, err):
			return tried, s.fail("delete", p.Path, err)
		}
		tried = true
	}
}

// delete sends one request to delete the node. It is seen through to its answer on the
// caller's goroutine, unless ctx ends too soon for that.
func (s *Session) delete(ctx context.Context, p *Node, as Role) (err error) {
	request := func(conn *zk.Conn) (struct{}, error) { return struct{}{}, conn.Delete(p.Path, -1) }
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < s.Timeout()/4 {
		_, err = CallAs(ctx, s, as, request)
	} else {
		_, err = CallThrough(ctx, s, as, request)
	}
	return err
}

// Discard deletes the node that its caller does not want any more, and
// waits for that while a server serves the session, for limit at most. The owner does
// what is left.
func (s *Session) Discard(p *Node, limit time.Duration) {
	served, detached := s.Served()
	known := s.nodes.part(p)
	if !known || !served {
		s.Leave(p)
	}
	if !served {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	if known {
		err := s.spawn(func() {
			_, err := Call(ctx, s, func(conn *zk.Conn) (struct{}, error) { return struct{}{}, conn.Delete(p.Path, -1) })
			if err == nil || errors.Is(err, zk.ErrNoNode) {
				s.Cleared(p)
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
	case <-detached:
	case <-ctx.Done():
	}
}

// postpone has the owner delete the node after a deletion that has failed.
// What a server answers with an error, of whatever kind, it may go on answering with
// it: the owner backs off, for this node alone.
func (s *Session) postpone(p *Node, err error) {
	backOff := !BrokenOff(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
	if !s.nodes.postpone(p, backOff, s.Timeout()) {
		return
	}
	s.events.Undeleted(p, err)
	s.alarm.Ring()
}
