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
	toDelete map[*Node]*entry   // those that are to be deleted, and not taken: uncertain and unwanted
	taken    map[*Node]struct{} // those that a caller of TakeDue deletes
	byPath   map[string]*entry  // those that are waiting or granted
	waiting  []*entry           // in no order
	behind   int                // how many of these are behind another contender
	granted  []*entry           // in the order in which heartbeats check them
	next     int                // in granted: the first one that the next heartbeat checks

	youngest map[life]*entry // of the waiting and granted verified nodes, linked by entry.older and younger
	grants   map[*Node]Grant
	over     error // why nothing more can be granted
	expired  bool  // no node exists any more
}

// NewSet returns a set without nodes.
func NewSet() *Set {
	return &Set{
		all:      make(map[*Node]*entry),
		toDelete: make(map[*Node]*entry),
		taken:    make(map[*Node]struct{}),
		byPath:   make(map[string]*entry),
		youngest: make(map[life]*entry),
		grants:   make(map[*Node]Grant),
	}
}

// An entry is what a Set knows of one of its nodes.
type entry struct {
	node      *Node
	state     state
	index     int       // in Set.waiting or granted
	since     time.Time // when something was granted on the node
	behind    bool      // a contender ahead of the waiting node was seen to exist, and no event of it since
	watched   bool      // the session watches the node
	rewrite   []byte    // data that the session has written, or is about to; nil if there is none
	second    *Second   // nil if there is none
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
	waiting                // the node exists, of a waiter
	granted                // the node exists, of a holder, or of one that has lost its claim or is about to release it
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

// isQueued reports whether the node is one of a waiter or a holder.
func (s state) isQueued() bool { return s == waiting || s == granted }

// Joined records that the node is known to exist. It is waiting if it is a Contender, and its caller has not left it in the
// meantime. Joined reports whether it is now the only one that waits.
func (s *Set) Joined(n *Node) (only bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.of(n)
	switch {
	case e.state == uncertain:
		e.state = unwanted
	case e.state == creating && n.Kind == Contender:
		s.byPath[n.Path] = e
		s.enqueue(e, waiting)
		return len(s.waiting) == 1
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

// list returns the list of the nodes in that state. The caller holds mu.
func (s *Set) list(of state) *[]*entry {
	if of == granted {
		return &s.granted
	}
	return &s.waiting
}

// enqueue puts a node into a state in which it is queued. The caller holds mu.
func (s *Set) enqueue(e *entry, as state) {
	list := s.list(as)
	e.state, e.index = as, len(*list)
	*list = append(*list, e)
}

// unlist removes a queued node from the list of its state. The caller holds mu, and sets another state.
func (s *Set) unlist(e *entry) {
	s.setBehind(e, false)
	list := s.list(e.state)
	last := len(*list) - 1
	(*list)[e.index] = (*list)[last]
	(*list)[e.index].index = e.index
	(*list)[last] = nil
	*list = (*list)[:last]
}

// dequeue removes a queued node from the structures of queued nodes. The caller holds mu, and sets another state.
func (s *Set) dequeue(e *entry) {
	if s.byPath[e.node.Path] == e {
		delete(s.byPath, e.node.Path)
	}
	s.unlist(e)
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
	if e.state.isQueued() {
		s.dequeue(e)
	}
	delete(s.all, n)
	delete(s.toDelete, n)
	delete(s.taken, n)
	return e.state != gone
}

// IsReleased reports whether the node's holder deletes it, or has deleted it.
func (s *Set) IsReleased(n *Node) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of(n).state
	return of == deleting || of == gone
}

// IsLeft reports whether the node is no longer of a waiter or a holder, and is not lost.
func (s *Set) IsLeft(n *Node) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.of(n).state.isQueued() && !n.isLost.Load()
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

// Count returns how many nodes are of a waiter, and how many grants there are.
func (s *Set) Count() (waiting, grants int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting), len(s.grants)
}

// SetBehind records whether a contender ahead of the waiting node is known to exist. Its caller watches that contender, and
// records the watch's event.
func (s *Set) SetBehind(n *Node, behind bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.of(n); e.state == waiting {
		s.setBehind(e, behind)
	}
}

// setBehind is SetBehind for a caller that holds mu.
func (s *Set) setBehind(e *entry, behind bool) {
	switch {
	case behind && !e.behind:
		s.behind++
	case !behind && e.behind:
		s.behind--
	}
	e.behind = behind
}

// A Need is what a session must be served for.
type Need struct {
	Contenders bool // nodes wait or are granted
	Deletions  bool // nodes are to be deleted
	// Blocks is set unless the nodes that may exist all wait behind other contenders: then some may block a queue.
	Blocks bool
}

// Need returns what the session must be served for.
func (s *Set) Need() Need {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Need{len(s.waiting)+len(s.granted) > 0, len(s.toDelete)+len(s.taken) > 0, len(s.all) > s.behind}
}

// AnyWaiting returns a waiting node, nil if there is none.
func (s *Set) AnyWaiting() *Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return nil
	}
	return s.waiting[0].node
}
