// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// event is the client's callback. It runs on the goroutines that serve the
// connection, so it changes state and never blocks.
func (s *Session) event(ev zk.Event) {
	if ev.Type != zk.EventSession {
		s.watches.event(ev)
		if ev.Type == zk.EventNodeDeleted || ev.Type == zk.EventNodeDataChanged {
			if n := s.nodes.at(ev.Path); n != nil {
				s.MarkLost(n)
			}
		}
		return
	}
	switch ev.State {
	case zk.StateHasSession:
		if s.dialer.isReturning() {
			return // no server: see giveBack
		}
		s.setAttached(true)
	case zk.StateDisconnected:
		s.setAttached(false)
	case zk.StateExpired:
		s.End(ErrExpired)
		s.quit() // an abandoned session is still dialling
	}
}

func (s *Session) setAttached(attached bool) {
	s.mu.Lock()
	if s.isAttached == attached {
		s.mu.Unlock()
		return
	}
	s.isAttached = attached
	s.beats.hurry()
	first := attached && !s.wasAttached
	turn := s.detach
	if attached {
		turn = s.attach
		s.wasAttached = true
		s.detach = make(chan struct{})
		s.attachedSince = time.Now()
	} else {
		s.attach = make(chan struct{})
		s.detachedSince = time.Now()
	}
	server, id, over := s.server, s.id, s.over
	outage, lasted := attached && s.outage && over == nil, s.attachedSince.Sub(s.detachedSince)
	s.outage = false
	s.mu.Unlock()

	close(turn)
	switch {
	case first:
		close(s.opened)
	case attached:
		s.events.Attached(id, server)
	default:
		s.events.Detached(id, server)
	}
	if outage {
		s.events.OutageEnded(server, lasted)
	}
	if !first && over == nil {
		s.events.Changed(s.Status())
	}
	s.alarm.Ring()
}

// awaitAttached waits until a server serves the session.
func (s *Session) awaitAttached(ctx context.Context) error {
	s.mu.Lock()
	attach, over := s.attach, s.over
	s.mu.Unlock()
	if over != nil {
		return over
	}
	select {
	case <-attach:
		return nil
	default:
	}
	select {
	case <-attach:
		return nil
	case <-s.ctx.Done():
		return s.Ended()
	case <-ctx.Done():
		return fmt.Errorf("%w (not connected: %w)", ctx.Err(), s.dialer.why())
	}
}

// IsServed reports whether a server serves the session at this moment.
func (s *Session) IsServed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isAttached
}

// MarkLost ends what was granted on the node, which a server reports as missing or
// overwritten. It returns false if the node was released in the meantime: then its
// absence proves nothing.
func (s *Session) MarkLost(n *Node) bool {
	was, first, granted := s.nodes.lose(n)
	if !first {
		return was
	}
	if granted != nil {
		if report := granted.End(ErrDeleted); report != nil {
			report()
		}
	}
	// A node that was overwritten still exists, and must be deleted.
	s.nodes.deleteSoon(n)
	s.alarm.Ring()
	close(n.lost)
	return true
}
