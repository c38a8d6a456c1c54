// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// Status returns the current state of the session. It does no I/O.
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

// Context returns a context that is done when the session is over and all grants have ended.
// Its cause is the reason.
func (s *Session) Context() context.Context { return s.ctx }

// Opened returns a channel that is closed when the session first exists.
func (s *Session) Opened() <-chan struct{} { return s.opened }

// DialingStopped returns a channel that is closed when the session opens no more connections.
func (s *Session) DialingStopped() <-chan struct{} { return s.dials.Done() }

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

// Why returns an error that names each server that could not be reached, with the reason.
func (s *Session) Why() error { return s.dialer.why() }

// IsMute reports whether a handshake was not answered, and none has been since: the servers
// may receive the session's packets although it receives none of theirs.
func (s *Session) IsMute() bool { return s.dialer.isMute() }

// Deadline returns the instant until which the session may be believed to live.
func (s *Session) Deadline() time.Time { return s.lease.Deadline() }

// Left returns how long the session may be believed to live from now. It is not positive if
// the session may not be.
func (s *Session) Left(now time.Time) time.Duration { return s.lease.Left(now) }

// RunBlocking runs f, which may not return, on a goroutine that Close waits for, for at most
// CloseTimeout.
func (s *Session) RunBlocking(f func()) { s.dialer.blocking.Run(f) }

// Wake wakes the owner immediately.
func (s *Session) Wake() { s.alarm.Ring() }

// FormatID returns the id of a session as the servers log it.
func FormatID(id int64) string { return fmt.Sprintf("0x%x", uint64(id)) }
