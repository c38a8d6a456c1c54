// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
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
			s.Nodes.Unwatch(n) // the event has spent the watch
			// An error means that the session is over.
			_ = s.spawn(func() { s.examine(n) })
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

// examine finds out whether a node was overwritten that a server reports as written. The event is no evidence: a server also sends it
// for a node that was last written before its watch was set, if the client's SetWatches names an older zxid, as after a connection on
// which not all watches were set again. A node that cannot be read is for the next heartbeat to check, at its Version.
func (s *Session) examine(n *nodes.Node) {
	c, err := s.readOwn(n)
	if err == nil || errors.Is(err, zk.ErrNoNode) {
		_, _ = s.markRead(n, c, err) // it ends what was granted on the node
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.Timeout()) // the node may be released in the meantime
	defer cancel()
	_ = s.Prove(ctx, n) // a loss is marked by the check
}

// examineUnwatched reads the granted nodes that are not watched: the ensemble may have been restored before the session was attached
// again, and have given the number of a node again. Of so many nodes that one heartbeat does not check them all, each is watched after
// the next.
//
// The heartbeat that is due now finds out why a node is missing: a server deletes the nodes of an expired session before it ends the
// connection.
func (s *Session) examineUnwatched() {
	unwatched := s.Nodes.NotWatched()
	if len(unwatched) > nodes.MaxChecks {
		return
	}
	_, detached := s.Served()
	examine := func(n *nodes.Node) {
		c, err := s.readOwn(n)
		for errors.Is(err, context.DeadlineExceeded) && !IsClosed(detached) { // heartbeats would not notice another contender's node
			c, err = s.readOwn(n)
		}
		if err == nil {
			_, _ = s.markRead(n, c, nil)
		}
	}
	// An error means that the session is over.
	_ = s.spawn(func() { _ = Each(s, unwatched, examine) })
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
		if attached {
			s.examineUnwatched()
		}
	}
	s.alarm.Ring()
}
