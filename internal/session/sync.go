// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// syncsInTimeout is how many syncs a session sends in T while nodes wait and nothing is granted. A follower that has lost its
// leader answers pings and reads, and the session would expire behind its back. It cannot answer a sync, so that the session
// leaves it in time. No quorum writes a sync, and none is a proof.
const syncsInTimeout = 3

// A syncs sends the syncs of a session.
type syncs struct {
	*heartbeats
	last     time.Time   // when the last one was sent; used by the owner only
	inFlight atomic.Bool // it was not answered yet
	refused  atomic.Bool // a server refused one: heartbeats take their place
}

// Joined is Nodes.Joined, and makes the owner keep the server honest while nodes wait.
func (h *heartbeats) Joined(n *nodes.Node) {
	if h.Nodes.Joined(n) {
		h.WakeWithin(h.Timeout() / syncsInTimeout)
	}
}

// sendDue sends a sync if one is due. It returns how long the owner may sleep. Heartbeats, which a lone follower cannot
// answer either, count as syncs.
func (s *syncs) sendDue(now time.Time) time.Duration {
	timeout := s.Timeout()
	waiting, granted := s.Nodes.Count()
	if waiting == 0 || granted > 0 || !s.IsServed() || s.inFlight.Load() {
		return timeout // the end of one, and each change of the rest, wakes the owner
	}
	period := timeout / syncsInTimeout
	last := later(later(s.last, s.schedule.lastSent()), s.link.state().attachedSince)
	if wait := last.Add(period).Sub(now); wait > 0 {
		return wait
	}
	n := s.Nodes.AnyWaiting()
	if n == nil {
		return timeout
	}
	s.last = now
	s.inFlight.Store(true)
	// An error means that the session is over.
	_ = s.spawn(func() {
		s.keepHonest(n)
		s.inFlight.Store(false)
		s.alarm.Ring()
	})
	return period
}

// keepHonest sends a sync, or a heartbeat of a waiting node if a server has refused a sync.
func (s *syncs) keepHonest(n *nodes.Node) {
	if !s.refused.Load() {
		_, err := callWithoutTurn(s, func(conn *zk.Conn) (string, error) { return conn.Sync(n.Parent) })
		if OutcomeOf(err) != Refused && !unnamed(err) {
			return
		}
		s.refused.Store(!errors.Is(err, zk.ErrSessionExpired))
	}
	sent := time.Now()
	_, err := callWithoutTurn(s, func(conn *zk.Conn) (struct{}, error) {
		return struct{}{}, s.Check(conn, []*nodes.Node{n})
	})
	s.events.Heartbeat(time.Since(sent), err)
}
