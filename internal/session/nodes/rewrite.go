// SPDX-License-Identifier: Apache-2.0

package nodes

import "bytes"

// BeginRewrite records that the caller is about to replace the node's data, at version 0. A check
// at version 0 can be carried out behind that write, and its refusal is then no loss.
func (s *Set) BeginRewrite(n *Node, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(n).rewrite = data
}

// Recognise reports whether the node, read with that version and data, was written by this
// session alone.
func (s *Set) Recognise(n *Node, version int32, data []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version == n.Version() {
		return true
	}
	e := s.of(n)
	if version != 1 || e.rewrite == nil || !bytes.Equal(data, e.rewrite) {
		return false
	}
	n.version.Store(1)
	e.watched = false // the write has fired the watch
	return true
}

// MayBeRewritten reports whether the session may have rewritten the node.
func (s *Set) MayBeRewritten(n *Node) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(n).rewrite != nil
}
