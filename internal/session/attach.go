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
		n := s.Nodes.At(ev.Path)
		switch {
		case n == nil:
		case ev.Type == zk.EventNodeDeleted:
			s.MarkLost(n)
		case ev.Type == zk.EventNodeDataChanged:
			// An error means that the session is over.
			_ = s.spawn(func() { _, _ = s.MarkOverwritten(n) })
		}
		return
	}
	switch ev.State {
	case zk.StateHasSession:
		if s.dialer.isStandIn() {
			return // no server: see failQueued
		}
		s.setAttached(true)
	case zk.StateDisconnected:
		s.setAttached(false)
	case zk.StateExpired:
		s.End(ErrExpired)
		s.disconnect() // an abandoned session is still dialling
	}
}

func (s *Session) setAttached(attached bool) {
	s.mu.Lock()
	if s.isAttached == attached {
		s.mu.Unlock()
		return
	}
	s.isAttached = attached
	s.heartbeats.makeDue()
	first := attached && !s.wasAttached
	turn := s.detach
	if attached {
		turn = s.attach
		s.wasAttached = true
		s.detach = make(chan struct{})
		s.attachedSince = time.Now()
		if s.attachedSince.Sub(s.detachedSince) > s.patience() {
			s.backSince = s.attachedSince
		}
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
