// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// DeleteSoon makes the owner delete the node.
func (s *Session) DeleteSoon(p *nodes.Node) {
	s.Nodes.DeleteSoon(p)
	s.alarm.Ring()
}

// startDueDeletions starts the deletion of the nodes that are due, up to MaxInFlight at a time.
// It returns how long the owner may sleep.
func (s *Session) startDueDeletions(now time.Time) time.Duration {
	timeout := s.Timeout()
	s.mu.Lock()
	if !s.isAttached || s.isDeleting {
		s.mu.Unlock()
		return timeout
	}
	due, wait := s.Nodes.Due(now)
	s.isDeleting = len(due) > 0
	s.mu.Unlock()
	if len(due) == 0 {
		return min(timeout, wait)
	}
	err := s.spawn(func() {
		ctx, cancel := context.WithTimeout(s.ctx, timeout)
		defer cancel()
		s.deleteAll(ctx, due)
		s.mu.Lock()
		s.isDeleting = false
		s.mu.Unlock()
		s.alarm.Ring()
	})
	if err != nil {
		return timeout // over
	}
	return timeout
}

// DeleteLater schedules the deletion of a node whose deadline has passed, T/4 from now. The
// session may still live, and the holder's work needs time to stop. EndGrace ends the wait.
func (s *Session) DeleteLater(p *nodes.Node) {
	s.Nodes.DeleteLater(p, time.Now().Add(s.Timeout()/4))
	s.alarm.Ring()
}

// EndGrace makes the owner delete the node immediately, if its deletion is scheduled. The
// caller reports with it that the holder's work has stopped.
func (s *Session) EndGrace(p *nodes.Node) {
	s.Nodes.EndGrace(p)
	s.alarm.Ring()
}

// deleteAll deletes the nodes, up to MaxInFlight at a time. It first searches for those
// whose path is unknown, once for each parent.
func (s *Session) deleteAll(ctx context.Context, due []*nodes.Node) {
	unknown := make(map[string][]*nodes.Node)
	known := make([]*nodes.Node, 0, len(due))
	for _, p := range due {
		if p.Path == "" {
			unknown[p.Parent] = append(unknown[p.Parent], p)
		} else {
			known = append(known, p)
		}
	}
	for parent, below := range unknown {
		paths, err := s.config.Find(ctx, parent, below)
		for _, p := range below {
			path, found := paths[p.Nonce]
			switch {
			case err != nil:
				s.postpone(p, err)
			case !found:
				s.Nodes.MarkGone(p)
			default:
				s.setPath(p, path)
				known = append(known, p)
			}
		}
	}
	// An error means that the session is over, and that its nodes go with it.
	_ = Each(s, known, func(p *nodes.Node) {
		if _, err := s.Delete(ctx, p, Ordinary); err != nil {
			s.postpone(p, err)
		}
	})
}

// setPath sets the path of a node whose create was not answered.
func (s *Session) setPath(p *nodes.Node, path string) {
	p.Path = path
	s.Nodes.Joined(p, time.Now())
}

// Delete deletes the node. existed is false if the node did not exist before the call.
//
// If Delete fails, the node stays outstanding, and the caller leaves its deletion to the
// owner.
func (s *Session) Delete(ctx context.Context, p *nodes.Node, as Role) (existed bool, err error) {
	tried := false
	for {
		if s.Nodes.IsUnsure(p) {
			found, err := s.stillExists(ctx, p)
			if err != nil {
				return tried, err
			}
			if !found {
				return tried, nil
			}
		}
		err := s.deleteOnce(ctx, p, as)
		s.Nodes.MarkUnsure(p, OutcomeOf(err) == Unknown)
		switch over := s.Ended(); {
		case err == nil:
			s.Nodes.MarkGone(p)
			return true, nil
		case errors.Is(err, zk.ErrNoNode), p.Kind == nodes.Lease && errors.Is(err, zk.ErrBadVersion):
			s.Nodes.MarkGone(p) // or a lease of another client, which has written it
			// An earlier attempt that was not answered has deleted it.
			return tried, nil
		case errors.Is(over, ErrExpired):
			return true, nil // the node was deleted with the session
		case over != nil:
			return tried, s.Fail("delete", p.Path, over)
		case ctx.Err() != nil || !s.mayRepeat(err):
			return tried, s.Fail("delete", p.Path, err)
		}
		tried = true
	}
}

// stillExists reports whether a named node exists after a deletion that was not answered. If
// that deletion was carried out, another session can have a node of that name by now.
func (s *Session) stillExists(ctx context.Context, p *nodes.Node) (bool, error) {
	paths, err := s.config.Find(ctx, p.Parent, []*nodes.Node{p})
	if _, found := paths[p.Nonce]; err != nil || found {
		return found, err
	}
	s.Nodes.MarkGone(p)
	return false, nil
}

// deleteOnce sends one request to delete the node. It waits for the answer on the caller's
// goroutine, unless ctx ends within T/4. It always waits for that of a named node: a request that
// outlives its call could hit a later node of that name.
func (s *Session) deleteOnce(ctx context.Context, p *nodes.Node, as Role) (err error) {
	request := func(conn *zk.Conn) (struct{}, error) { return struct{}{}, conn.Delete(p.Path, p.Kind.DeleteVersion()) }
	if deadline, ok := ctx.Deadline(); ok && p.Kind != nodes.Named && time.Until(deadline) < s.Timeout()/4 {
		_, err = CallAs(ctx, s, as, request)
	} else {
		_, err = CallAndWait(ctx, s, as, request)
	}
	return err
}

// Discard deletes the node, which its caller no longer wants. It waits for the deletion
// while a server serves the session, for at most limit. The owner does the rest.
func (s *Session) Discard(p *nodes.Node, limit time.Duration) {
	served, detached := s.Served()
	known := s.Nodes.BeginDelete(p)
	if !known || !served {
		s.DeleteSoon(p)
	}
	if !served {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	if known {
		err := s.spawn(func() {
			_, err := Call(ctx, s, func(conn *zk.Conn) (struct{}, error) { return struct{}{}, conn.Delete(p.Path, p.Kind.DeleteVersion()) })
			if err == nil || errors.Is(err, zk.ErrNoNode) || p.Kind == nodes.Lease && errors.Is(err, zk.ErrBadVersion) {
				s.Nodes.MarkGone(p)
				return
			}
			s.postpone(p, err)
			cancel() // the owner retries, and no caller waits for it
		})
		if err != nil {
			return // over: its nodes go with it
		}
	}
	select {
	case <-p.Gone():
	case <-detached:
	case <-ctx.Done():
	}
}

// postpone makes the owner delete the node after a failed deletion. A server that answered
// with an error of any kind may keep doing so: the owner then backs off, for this node
// alone.
func (s *Session) postpone(p *nodes.Node, err error) {
	backOff := errors.Is(err, errThrottled) || !Retryable(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
	if !s.Nodes.Postpone(p, backOff, s.Timeout(), time.Now()) {
		return
	}
	s.events.Undeleted(p, err)
	s.alarm.Ring()
}
