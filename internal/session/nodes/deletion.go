// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"math"
	"slices"
	"time"
)

// DeleteSoon records that the node is no longer wanted, and is to be deleted once its path is known.
func (s *Set) DeleteSoon(n *Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleteSoon(s.of(n))
}

// deleteSoon is DeleteSoon for a caller that holds mu.
func (s *Set) deleteSoon(e *entry) {
	switch e.state {
	case waiting, granted:
		s.dequeue(e)
		e.state = unwanted
	case deleting:
		e.state = unwanted
	case creating:
		e.state = uncertain
	default:
		return
	}
	s.toDelete[e.node] = e
}

// DeleteLater is DeleteSoon for a node that is not to be deleted before that instant, unless the
// holder's work has stopped.
func (s *Set) DeleteLater(n *Node, notBefore time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.of(n)
	if !e.stopped {
		e.notBefore = notBefore
	}
	s.deleteSoon(e)
}

// EndGrace records that the holder's work has stopped: the node need not be kept for it.
func (s *Set) EndGrace(n *Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.of(n)
	e.stopped = true
	if e.failures == 0 {
		e.notBefore = time.Time{}
	}
}

// BeginDelete records that the caller is about to delete the node itself, and reports whether it must: the owner or another
// caller deletes a node that is not queued. From then on heartbeats do not check the node.
func (s *Set) BeginDelete(n *Node) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.of(n)
	if !e.state.isQueued() {
		return false
	}
	s.dequeue(e)
	e.state = deleting
	return true
}

// TakeDue takes the nodes that are to be deleted by now, and returns how long to wait for the next one. The caller deletes each of them, or
// postpones it. On those of held something was granted. Of the others, those come first that may block other contenders: those below the
// parent with the most.
func (s *Set) TakeDue(now time.Time) (held, others []*Node, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait = math.MaxInt64
	below := make(map[string]int) // parents
	for n, e := range s.toDelete {
		if left := e.notBefore.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		delete(s.toDelete, n)
		s.taken[n] = struct{}{}
		if e.since.IsZero() {
			others = append(others, n)
			below[n.Parent]++
		} else {
			held = append(held, n)
		}
	}
	slices.SortFunc(others, func(a, b *Node) int { return below[b.Parent] - below[a.Parent] })
	return held, others, wait
}

// KeptUntil returns the instant until which nodes are kept for the work of their holders, which may have passed. It is for a session
// that is over.
func (s *Set) KeptUntil() (until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.all {
		if e.failures == 0 && e.notBefore.After(until) { // otherwise its deletion has been tried: it backs off
			until = e.notBefore
		}
	}
	return until
}

// Unwanted returns the nodes below parent that are to be deleted, and all nodes below it if
// the session is over and they may still exist.
func (s *Set) Unwanted(parent string) []*Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expired {
		return nil
	}
	var nodes []*Node
	for n, e := range s.all {
		if n.Parent == parent && (s.over != nil || e.state == unwanted || e.state == deleting || e.state == uncertain) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// Postpone is DeleteSoon for a node whose deletion has failed, of a taken node too. If backOff is set, the pause from now until
// the next attempt grows with each failure, from a third of timeout on. It returns false
// if the node no longer needs to be deleted.
func (s *Set) Postpone(n *Node, backOff bool, timeout time.Duration, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.of(n)
	if s.over != nil || e.state == gone {
		return false
	}
	if backOff {
		pause := min(timeout/3<<min(e.failures, 4), maxPause)
		if next := now.Add(pause); next.After(e.notBefore) {
			e.notBefore = next
		}
		e.failures++
	}
	if _, taken := s.taken[n]; taken {
		delete(s.taken, n)
		s.toDelete[n] = e
	}
	s.deleteSoon(e)
	return true
}

// maxPause bounds the pause between two attempts to delete one node.
const maxPause = time.Minute

// MarkUnsure records whether the deletion of a Named node was not answered: it may have been carried out, and another session
// can have a node of that name by now.
func (s *Set) MarkUnsure(n *Node, unsure bool) {
	if n.Kind != Named {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(n).unsure = unsure
}

// IsUnsure reports whether the last deletion of a Named node was not answered.
func (s *Set) IsUnsure(n *Node) bool {
	if n.Kind != Named {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(n).unsure
}
