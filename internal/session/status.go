// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// Status returns the current state of the session. It does no I/O.
func (s *Session) Status() Status {
	link := s.link.state()
	status := Status{
		ID: link.id, Timeout: s.Timeout(), Attached: link.isAttached, Server: link.server,
		Since: link.detachedSince, Proof: s.lease.LastProof(), Ended: s.Ended(),
	}
	switch {
	case status.Ended != nil:
		status.Attached, status.Since = false, s.endedSince()
	case link.isAttached:
		status.Since = link.attachedSince
	}
	return status
}

// Conn returns the ZooKeeper client's connection, which lives as long as the session.
func (s *Session) Conn() *zk.Conn { return s.conn }

// Deadline returns the instant until which the session may be believed to live.
func (s *Session) Deadline() time.Time { return s.lease.Deadline() }

// Left returns how long the session may be believed to live from now. It is not positive if
// the session may not be.
func (s *Session) Left(now time.Time) time.Duration { return s.lease.Left(now) }

// Wake wakes the owner immediately.
func (s *Session) Wake() { s.alarm.Ring() }

// FormatID returns the id of a session as the servers log it.
func FormatID(id int64) string { return fmt.Sprintf("0x%x", uint64(id)) }
