// SPDX-License-Identifier: Apache-2.0

package nodes

// A life is the time from the creation of a parent until its deletion.
type life struct {
	parent string // path
	tag    int64  // its czxid
}

// life returns the life of the parent that the node's name contains.
func (n *Node) life() life { return life{n.Parent, n.Tag} }

// MarkVerified records that the node was created in the life of the parent that its name contains.
// While the node exists, that life goes on: no name without a nonce is used in another life
// of the parent.
func (s *Set) MarkVerified(n *Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.of(n)
	if !e.state.isQueued() || e.verified {
		return
	}
	e.verified = true
	e.older = s.youngest[n.life()]
	if e.older != nil {
		e.older.younger = e
	}
	s.youngest[n.life()] = e
}

// Witness returns a node that a join must check, so that it is carried out only in that
// life of the parent, or nil if no node proves it. It is the youngest, which as a rule
// is released last.
func (s *Set) Witness(parent string, tag int64) *Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.youngest[life{parent, tag}]; e != nil {
		return e.node
	}
	return nil
}

// unlink makes a verified node prove nothing any more. The caller holds mu.
func (s *Set) unlink(e *entry) {
	e.verified = false
	if e.older != nil {
		e.older.younger = e.younger
	}
	switch {
	case e.younger != nil:
		e.younger.older = e.older
	case e.older != nil:
		s.youngest[e.node.life()] = e.older
	default:
		delete(s.youngest, e.node.life())
	}
	e.older, e.younger = nil, nil
}
