// SPDX-License-Identifier: Apache-2.0

package nodes

// A Second is a second node of a contender, such as the number of a slot. Its name is fixed, and other sessions can have a node of
// that name later. The transaction that rewrites the contender's node creates it, with the same data: so it exists while
// the contender's node does, and both are deleted in one transaction.
type Second struct {
	Path    string
	Data    []byte
	Created bool // the transaction is known to have been carried out

	// Fired is closed when the watch that shows the node has fired. It is nil before the node is watched.
	Fired <-chan struct{}
}

// BeginRewriteAnd is BeginRewrite for a transaction that also creates a second node at that path, with the same data.
func (s *Set) BeginRewriteAnd(n *Node, data []byte, second string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.of(n)
	e.rewrite, e.second = data, &Second{Path: second, Data: data}
}

// SecondCreated records that the second node was created.
func (s *Set) SecondCreated(n *Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.of(n); e.second != nil {
		e.second.Created = true
	}
}

// SecondWatched records that a watch shows the second node, until fired is closed.
func (s *Set) SecondWatched(n *Node, fired <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.of(n); e.second != nil {
		e.second.Fired = fired
	}
}

// ForgetSecond records that the node has no second one, or none any more.
func (s *Set) ForgetSecond(n *Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(n).second = nil
}

// Second returns the second node that the node may have. found is false if it has none.
func (s *Set) Second(n *Node) (second Second, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.of(n); e.second != nil {
		return *e.second, true
	}
	return Second{}, false
}
