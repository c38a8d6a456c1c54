// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"
)

// Status returns where the session stands now. It does no I/O.
func (s *Session) Status() Status {
	proof := s.lease.LastProof()
	s.mu.Lock()
	defer s.mu.Unlock()
	status := Status{
		ID: s.id, Timeout: s.lease.Timeout(), Attached: s.isAttached, Server: s.server,
		Since: s.detachedSince, Proof: proof, Ended: s.over,
	}
	switch {
	case s.over != nil:
		status.Attached = false
		status.Since = s.overSince
	case s.isAttached:
		status.Since = s.attachedSince
	}
	return status
}

// Conn returns the ZooKeeper client's connection, which lives as long as the session.
func (s *Session) Conn() *zk.Conn { return s.conn }

// Context is done when the session is over, and what was granted in it was notified. Its
// cause is the reason.
func (s *Session) Context() context.Context { return s.ctx }

// Opened returns a channel that is closed when the session first exists.
func (s *Session) Opened() <-chan struct{} { return s.opened }

// HungUp returns a channel that is closed when no more connections are made.
func (s *Session) HungUp() <-chan struct{} { return s.dials.Done() }

// Attached returns a channel that is closed while a server serves the session.
func (s *Session) Attached() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attach
}

// Served reports whether a server serves the session, and returns a channel that is closed
// while none does.
func (s *Session) Served() (served bool, detached <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isAttached, s.detach
}

// Why names each server that could not be reached, with the reason.
func (s *Session) Why() error { return s.dialer.why() }

// IsMute reports whether a handshake was not answered since one last was: servers may hear
// the session, and it does not hear them.
func (s *Session) IsMute() bool { return s.dialer.isMute() }

// Deadline is the instant until which the session may be believed to live.
func (s *Session) Deadline() time.Time { return s.lease.Deadline() }

// Left is how long the session may be believed to live from now, not positive if it may not.
func (s *Session) Left(now time.Time) time.Duration { return s.lease.Left(now) }

// RunStray runs f, which may not return, on a goroutine for which Bury waits a while.
func (s *Session) RunStray(f func()) { s.dialer.blocking.Run(f) }

// Wake has the owner look now.
func (s *Session) Wake() { s.alarm.Ring() }
