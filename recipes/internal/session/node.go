// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"time"
)

// A Node is one ephemeral sequential node: from before its creation is asked for
// until its deletion is confirmed. It belongs to one session and dies with it.
type Node struct {
	Parent string // path of the node above
	Tag    int64  // czxid that the parent was believed to have
	Nonce  string // in the node's data
	Prefix string // of its name, to which the server appends a number
	Above  int32  // the number is larger than this one

	// Path is set when it is known, before the session is told that the node exists.
	Path string

	gone     chan struct{} // closed once the node does not exist, and never will
	bereaved chan struct{} // closed when another client deleted or wrote to the node

	// Guarded by Session.mu.
	standing  standing
	index     int       // in outstanding.held, while it is held
	since     time.Time // when the node was known to exist
	watched   bool      // it is watched
	notBefore time.Time // when it may be deleted
	failures  int       // of its deletion, one after the other
	stopped   bool      // the holder's work has stopped: the node need not be kept
	vouches   bool      // for its life of the parent
	older     *Node     // that vouches for the same, nil if none
	younger   *Node     // likewise
	orphaned  bool      // bereaved is closed, or about to be
	granted   Ender     // what stands on the node, nil if nothing does
}

// NewNode returns a Node that no request has named yet.
func NewNode(parent string, tag int64, nonce string) *Node {
	return &Node{Parent: parent, Tag: tag, Nonce: nonce, gone: make(chan struct{}), bereaved: make(chan struct{})}
}

// Gone returns a channel that is closed once the node does not exist, and never will.
func (n *Node) Gone() <-chan struct{} { return n.gone }

// Bereaved returns a channel that is closed when another client has deleted the node, or
// written to it.
func (n *Node) Bereaved() <-chan struct{} { return n.bereaved }

// life is that of the parent which the node's name says.
func (n *Node) life() life { return life{n.Parent, n.Tag} }

// Enter notes a node that is about to be created.
func (s *Session) Enter(n *Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes.enter(n)
}

// Joined notes that the node exists, for a caller that still wants it.
func (s *Session) Joined(n *Node) {
	s.mu.Lock()
	only := s.nodes.joined(n)
	s.mu.Unlock()
	if only {
		s.lookForBeat()
	}
}

// Vouch notes that the node belongs to the parent's life that its name says.
func (s *Session) Vouch(n *Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes.vouch(n)
}

// Witness returns a node of the session in that life of the parent, nil if there is none:
// as long as it exists, so does that life.
func (s *Session) Witness(parent string, tag int64) *Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes.witness(parent, tag)
}

// Grant has e end with the session, or with the node. Its error is the reason if one of them
// has ended, and then nothing was granted.
func (s *Session) Grant(n *Node, e Ender) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over != nil:
		return s.over
	case n.orphaned:
		return ErrDeleted
	}
	n.granted = e
	s.granted[n] = struct{}{}
	return nil
}

// Ungrant forgets what stands on the node, which has ended.
func (s *Session) Ungrant(n *Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.granted, n)
}

// takeGranted returns the nodes on which something stands, and forgets that. The caller
// holds mu.
func (s *Session) takeGranted() []*Node {
	nodes := make([]*Node, 0, len(s.granted))
	for n := range s.granted {
		nodes = append(nodes, n)
	}
	clear(s.granted)
	return nodes
}

// endAll ends what stands on nodes. It returns those nodes where that had not ended before,
// with what reports it.
func endAll(nodes []*Node, cause error) (ended []*Node, reports []func()) {
	for _, n := range nodes {
		if report := n.granted.End(cause); report != nil {
			ended, reports = append(ended, n), append(reports, report)
		}
	}
	return ended, reports
}

// Lost ends what stands on the node, which a server says is missing or was
// written to. It is false if the node was released meanwhile: that it is missing says
// nothing then.
func (s *Session) Lost(n *Node) bool {
	s.mu.Lock()
	was := n.standing == held || n.orphaned
	first := was && !n.orphaned
	n.orphaned = n.orphaned || was
	granted := n.granted
	if first && granted != nil {
		delete(s.granted, n)
	}
	s.mu.Unlock()
	if !first {
		return was
	}
	if granted != nil {
		if report := granted.End(ErrDeleted); report != nil {
			report()
		}
	}
	// If it was written to, it is still there, and to be deleted.
	s.Leave(n)
	close(n.bereaved)
	return true
}

// Leave has the owner delete the node.
func (s *Session) Leave(n *Node) {
	s.mu.Lock()
	s.nodes.leave(n)
	s.mu.Unlock()
	s.alarm.Ring()
}

// Part reports whether the caller is to delete the node itself. Heartbeats
// check it no more.
func (s *Session) Part(n *Node) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes.part(n)
}

// Cleared notes that the node does not exist, and never will.
func (s *Session) Cleared(n *Node) {
	s.mu.Lock()
	news := s.nodes.clear(n)
	s.mu.Unlock()
	if news {
		close(n.gone)
	}
}

// Holds reports whether the node at path is one that the session waits with or holds.
func (s *Session) Holds(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes.byPath[path] != nil
}

// Outstanding returns how many nodes may exist in the session: those that are waited with or
// held, those whose creation was not answered yet, and those that are still to be deleted.
// It is 0 once the session is over.
func (s *Session) Outstanding() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return 0 // they die with it
	}
	return len(s.nodes.all)
}

// Unwanted returns the nodes below parent that are to be deleted, or are to go with a
// session that is over.
func (s *Session) Unwanted(parent string) []*Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.over, ErrExpired) {
		return nil
	}
	return s.nodes.unwanted(parent, s.over != nil)
}
