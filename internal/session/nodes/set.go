// SPDX-License-Identifier: Apache-2.0

// Package nodes has the set of nodes that may exist in one ZooKeeper session. It decides which of them prove the session, and
// which are to be deleted, and does no I/O.
//
// Reading order: node.go for a node, set.go for its states, then the file of each decision.
package nodes

import (
	"sync"
	"time"
)

// A Set is the set of nodes that may exist in a session, from before the create of each is sent until its deletion is
// confirmed. Whatever fails in between, each node in the set is deleted, or goes with the session.
// It is safe for concurrent use.
type Set struct {
	mu       sync.Mutex // guards what follows, entries included
	all      map[*Node]*entry
	toDelete map[*Node]*entry  // those that are to be deleted: uncertain and unwanted
	byPath   map[string]*entry // those that are held
	held     []*entry          // the same, in the order in which heartbeats check them
	next     int               // in held: the first one that the next heartbeat checks

	youngest map[life]*entry // of the held verified nodes, linked by entry.older and younger
	grants   map[*Node]Grant
	over     error // why nothing more can be granted
	expired  bool  // no node exists any more
}

// NewSet returns a set without nodes.
func NewSet() *Set {
	return &Set{
		all:      make(map[*Node]*entry),
		toDelete: make(map[*Node]*entry),
		byPath:   make(map[string]*entry),
		youngest: make(map[life]*entry),
		grants:   make(map[*Node]Grant),
	}
}

// An entry is what a Set knows of one of its nodes.
type entry struct {
	node      *Node
	state     state
	index     int       // in Set.held, while the node is held
	since     time.Time // when the node was known to exist
	watched   bool      // the session watches the node
	rewrite   []byte    // data that the session has written, or is about to; nil if there is none
	notBefore time.Time // when it may be deleted
	failures  int       // consecutive failures of its deletion
	stopped   bool      // the holder's work has stopped: the node need not be kept
	unsure    bool      // its deletion was not answered
	verified  bool      // proves that its life of the parent goes on
	older     *entry    // the next older node that is verified for that life, nil if none
	younger   *entry    // the next younger one, nil if none
}

// A state is what the session knows of a node.
type state int

const (
	creating  state = iota // the create is in flight, or the node exists and is not of a contender
	uncertain              // the create's outcome is unknown, and no caller waits for the node
	held                   // the node exists, of a waiter or a holder
	deleting               // the node exists, and its holder is deleting it
	unwanted               // the node may exist, and must be deleted
	gone                   // no node exists: it is not in the set
)

// Register adds a node that is about to be created.
func (s *Set) Register(n *Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[n] = &entry{node: n}
}

// Joined records that the node was known to exist at now. The node is held if it is a Contender, and its caller has not left
// it in the meantime. Joined reports whether it is now the only held one.
func (s *Set) Joined(n *Node, now time.Time) (only bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.of(n)
	switch {
	case e.state == uncertain:
		e.state = unwanted
	case e.state == creating && n.Kind == Contender:
		e.state, e.since = held, now
		s.byPath[n.Path] = e
		e.index = len(s.held)
		s.held = append(s.held, e)
		return len(s.held) == 1
	}
	return false
}

// of returns the entry of the node. The caller holds mu.
func (s *Set) of(n *Node) *entry {
	if e := s.all[n]; e != nil {
		return e
	}
	return &entry{node: n, state: gone}
}

// unhold removes a held node from the structures of held nodes. The caller holds mu.
func (s *Set) unhold(e *entry) {
	if s.byPath[e.node.Path] == e {
		delete(s.byPath, e.node.Path)
	}
	last := len(s.held) - 1
	s.held[e.index] = s.held[last]
	s.held[e.index].index = e.index
	s.held[last] = nil
	s.held = s.held[:last]
	if e.verified {
		s.unlink(e)
	}
}

// HandOver ends the session's responsibility for a Lease, whose create has been answered.
func (s *Set) HandOver(n *Node) { s.remove(n) }

// MarkGone records that the node does not exist, and never will.
func (s *Set) MarkGone(n *Node) {
	if s.remove(n) {
		close(n.gone)
	}
}

// remove reports whether the node was in the set until now.
func (s *Set) remove(n *Node) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.of(n)
	if e.state == held {
		s.unhold(e)
	}
	delete(s.all, n)
	delete(s.toDelete, n)
	return e.state != gone
}

// At returns the node with that path if it is of a waiter or a holder, and otherwise nil.
func (s *Set) At(path string) *Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byPath[path]; e != nil {
		return e.node
	}
	return nil
}

// Outstanding returns how many nodes may exist in the session: nodes of waiters and holders, those whose create has not been
// answered, and those that are still to be deleted. It returns 0 once the session is over: they go with it.
func (s *Set) Outstanding() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return 0
	}
	return len(s.all)
}

// Count returns how many nodes are of a waiter or a holder, and how many grants there are.
func (s *Set) Count() (held, granted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held), len(s.grants)
}

// Needs reports whether contenders wait or hold, and whether nodes are to be deleted: what a session must be served for.
func (s *Set) Needs() (contenders, deletions bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held) > 0, len(s.toDelete) > 0
}
