// SPDX-License-Identifier: Apache-2.0

package nodes

import "time"

// One heartbeat checks as many nodes as fit below both bounds: a server drops the
// connection over a packet larger than its jute.maxbuffer. Any node proves the session. If
// more are held than fit, heartbeats check them in turn, and watches report deletions.
const (
	MaxChecks     = 128
	maxCheckBytes = 64 << 10
)

// NextChecks returns the nodes that a heartbeat checks, at most as many as fit: those on which something is granted, which
// successive heartbeats check all in turn. wanted come first; they may be waiting. It returns none if nothing is granted or
// wanted.
//
// Nodes on which something has been granted only since before come last: the session was proved to live for the grant, and
// under a quick succession of locks such a node would be gone by the time of its check.
func (s *Set) NextChecks(before time.Time, wanted []*Node) (picked []*Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := 3*4 + 9 // length, xid and operation, and the end of the transaction
	fits := func(n *Node) bool {
		size += 9 + 4 + len(n.Path) + 4 // type, done and error; the path with its length; version
		return len(picked) == 0 || len(picked) < MaxChecks && size <= maxCheckBytes
	}
	for _, n := range wanted {
		if s.of(n).state.isQueued() && fits(n) {
			picked = append(picked, n)
		}
	}
	for k := range s.granted {
		i := (s.next + k) % len(s.granted)
		e := s.granted[i]
		if !e.since.Before(before) {
			continue
		}
		if !fits(e.node) {
			s.next = i
			return picked
		}
		picked = append(picked, e.node)
	}
	s.next = 0
	if len(picked) == 0 && len(s.granted) > 0 {
		picked = append(picked, s.granted[len(s.granted)-1].node) // a young one rather than none
	}
	return picked
}

// NotWatched returns the granted nodes that are not watched.
func (s *Set) NotWatched() (nodes []*Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.granted {
		if !e.watched {
			nodes = append(nodes, e.node)
		}
	}
	return nodes
}

// Unwatched is NotWatched, and records that they are watched from now on.
func (s *Set) Unwatched() (nodes []*Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.granted {
		if !e.watched {
			e.watched = true
			nodes = append(nodes, e.node)
		}
	}
	return nodes
}

// Unwatch records that the node is not watched.
func (s *Set) Unwatch(n *Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(n).watched = false
}

// UnwatchAll is Unwatch for all granted nodes.
func (s *Set) UnwatchAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.granted {
		e.watched = false
	}
}
