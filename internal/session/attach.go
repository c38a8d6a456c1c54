// SPDX-License-Identifier: Apache-2.0

package session

import (
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

// setAttached records whether a server serves the session.
func (s *Session) setAttached(attached bool) {
	s.schedule.makeDue() // first: the owner sends a heartbeat as soon as the session is attached
	before, outage := s.link.set(attached, s.patience())
	if before.isAttached == attached {
		return
	}
	over := s.Ended()
	switch {
	case !before.wasAttached: // Opened reports it
	case attached:
		s.events.Attached(before.id, before.server)
	default:
		s.events.Detached(before.id, before.server)
	}
	if outage > 0 && over == nil {
		s.events.OutageEnded(before.server, outage)
	}
	if before.wasAttached && over == nil {
		s.events.Changed(s.Status())
	}
	s.alarm.Ring()
}
