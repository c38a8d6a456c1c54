// SPDX-License-Identifier: Apache-2.0

package session

import "errors"

// Register registers a node that is about to be created.
func (s *Session) Register(n *Node) {
	s.nodes.enter(n)
}

// MarkVerified records that the node was created in the life of the parent that its name contains.
func (s *Session) MarkVerified(n *Node) {
	s.nodes.verify(n)
}

// Witness returns a node of the session in that life of the parent, nil if there is none.
// While that node exists, that life goes on.
func (s *Session) Witness(parent string, tag int64) *Node {
	return s.nodes.witness(parent, tag)
}

// Grant registers e to end with the session or the node. If either has ended, Grant returns
// the reason and registers nothing.
func (s *Session) Grant(n *Node, e Ender) error { return s.nodes.grant(n, e) }

// Ungrant removes the grant on the node, which has ended.
func (s *Session) Ungrant(n *Node) { s.nodes.ungrant(n) }

// DeleteSoon makes the owner delete the node.
func (s *Session) DeleteSoon(n *Node) {
	s.nodes.deleteSoon(n)
	s.alarm.Ring()
}

// BeginDelete reports whether the caller must delete the node itself. From then on heartbeats do
// not check the node.
func (s *Session) BeginDelete(n *Node) bool {
	return s.nodes.beginDelete(n)
}

// HandOver ends the session's responsibility for a lease, whose create has been answered.
func (s *Session) HandOver(n *Node) { s.nodes.clear(n) }

// MarkGone records that the node does not exist, and never will.
func (s *Session) MarkGone(n *Node) {
	if s.nodes.clear(n) {
		close(n.gone)
	}
}

// Holds reports whether the node at path belongs to a waiter or holder of the session.
func (s *Session) Holds(path string) bool {
	return s.nodes.at(path) != nil
}

// Outstanding returns how many nodes may exist in the session: those of waiters and holders,
// those whose create has not been answered, and those that are still to be deleted. It
// returns 0 once the session is over.
func (s *Session) Outstanding() int {
	if s.Ended() != nil {
		return 0 // they go with it
	}
	all, _, _ := s.nodes.count()
	return all
}

// Unwanted returns the nodes below parent that are to be deleted, and all nodes below it if
// the session is over and they may still exist.
func (s *Session) Unwanted(parent string) []*Node {
	over := s.Ended()
	if errors.Is(over, ErrExpired) {
		return nil
	}
	return s.nodes.unwanted(parent, over != nil)
}
