// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"maps"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/sentinel"
)

// An Ender is a grant that must end with its session.
type Ender interface {
	// End ends the grant, with that cause. It returns a function that reports the end, to be
	// called once all grants that end with the same cause have ended, or nil if this one had
	// ended before. End is called under no mutex and must not block, except if the cause is
	// ErrClosed: then it may run code of the caller of Close.
	End(cause error) (report func())
}

// A Grant is what was granted on a node.
type Grant struct {
	node  *Node
	ender Ender
	at    time.Time
}

// EndAll ends the grants. It returns the nodes of those that had not ended
// before, and the functions that report the end of each.
func EndAll(grants []Grant, cause error) (ended []*Node, reports []func()) {
	for _, g := range grants {
		if report := g.ender.End(cause); report != nil {
			ended, reports = append(ended, g.node), append(reports, report)
		}
	}
	return ended, reports
}

// Grant registers e, granted at now, to end with the session or the node. If either has ended, Grant returns
// the reason and registers nothing.
func (s *Set) Grant(n *Node, e Ender, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over != nil:
		return s.over
	case n.isLost.Load():
		return sentinel.ErrDeleted
	}
	if of := s.of(n); of.state == waiting {
		s.unlist(of)
		s.enqueue(of, granted)
		of.since = now
	}
	s.grants[n] = Grant{n, e, now}
	return nil
}

// Ungrant removes the grant on the node, which has ended.
func (s *Set) Ungrant(n *Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.grants, n)
}

// TakeIf removes all grants and returns them, if the condition still holds when no grant can be made: it is called under the
// set's mutex. From then on their nodes are not to be deleted before that instant, unless the holder's work has stopped.
func (s *Set) TakeIf(condition func() bool, notBefore time.Time) []Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !condition() {
		return nil
	}
	return s.take(notBefore)
}

// take removes all grants, keeps their nodes until that instant, and returns them. The caller holds mu.
func (s *Set) take(notBefore time.Time) []Grant {
	for n := range s.grants {
		if e := s.of(n); !e.stopped {
			e.notBefore = notBefore
		}
	}
	grants := slices.Collect(maps.Values(s.grants))
	clear(s.grants)
	return grants
}

// End is TakeIf for a session that is over; from then on Grant fails with cause. expired reports that the ensemble has deleted
// the session's nodes.
func (s *Set) End(cause error, expired bool, notBefore time.Time) []Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over, s.expired = cause, expired
	return s.take(notBefore)
}

// Lose records that a server reports the node as missing or overwritten. was reports whether
// the node was lost: not if it was released in the meantime. first reports whether this is
// the first such report: the caller ends e, which was granted on the node until now, nil if nothing was, and then calls
// CloseLost.
func (s *Set) Lose(n *Node) (was, first bool, e Ender) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case n.isLost.Load():
		return true, false, nil
	case !s.of(n).state.isQueued():
		return false, false, nil
	}
	n.isLost.Store(true)
	e = s.grants[n].ender
	delete(s.grants, n)
	return true, true, e
}
