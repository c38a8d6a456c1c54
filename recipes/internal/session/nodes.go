// SPDX-License-Identifier: Apache-2.0

package session

import "errors"

// Enter notes a node that is about to be created.
func (s *Session) Enter(n *Node) {
	s.nodes.enter(n)
}

// Vouch notes that the node belongs to the parent's life that its name says.
func (s *Session) Vouch(n *Node) {
	s.nodes.vouch(n)
}

// Witness returns a node of the session in that life of the parent, nil if there is none:
// as long as it exists, so does that life.
func (s *Session) Witness(parent string, tag int64) *Node {
	return s.nodes.witness(parent, tag)
}

// Grant has e end with the session, or with the node. Its error is the reason if one of them
// has ended, and then nothing was granted.
func (s *Session) Grant(n *Node, e Ender) error { return s.nodes.grant(n, e) }

// Ungrant forgets what stands on the node, which has ended.
func (s *Session) Ungrant(n *Node) { s.nodes.ungrant(n) }

// Leave has the owner delete the node.
func (s *Session) Leave(n *Node) {
	s.nodes.leave(n)
	s.alarm.Ring()
}

// Part reports whether the caller is to delete the node itself. Heartbeats
// check it no more.
func (s *Session) Part(n *Node) bool {
	return s.nodes.part(n)
}

// Cleared notes that the node does not exist, and never will.
func (s *Session) Cleared(n *Node) {
	if s.nodes.clear(n) {
		close(n.gone)
	}
}

// Holds reports whether the node at path is one that the session waits with or holds.
func (s *Session) Holds(path string) bool {
	return s.nodes.at(path) != nil
}

// Outstanding returns how many nodes may exist in the session: those that are waited with or
// held, those whose creation was not answered yet, and those that are still to be deleted.
// It is 0 once the session is over.
func (s *Session) Outstanding() int {
	if s.Ended() != nil {
		return 0 // they die with it
	}
	all, _, _ := s.nodes.count()
	return all
}

// Unwanted returns the nodes below parent that are to be deleted, or are to go with a
// session that is over.
func (s *Session) Unwanted(parent string) []*Node {
	over := s.Ended()
	if errors.Is(over, ErrExpired) {
		return nil
	}
	return s.nodes.unwanted(parent, over != nil)
}
