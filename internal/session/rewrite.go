// SPDX-License-Identifier: Apache-2.0

package session

import "bytes"

// Version returns the version that the node has while no other client has written it: 0, or 1
// once the session has rewritten it.
func (n *Node) Version() int32 { return n.version.Load() }

// BeginRewrite records that the caller is about to replace the node's data, at version 0. A check
// at version 0 can be carried out behind that write, and its refusal is then no loss.
func (s *Session) BeginRewrite(n *Node, data []byte) { s.nodes.beginRewrite(n, data) }

// Recognise reports whether the node, read with that version and data, was written by this
// session alone.
func (s *Session) Recognise(n *Node, version int32, data []byte) bool {
	return s.nodes.recognise(n, version, data)
}

func (o *outstanding) beginRewrite(n *Node, data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n.rewrite = data
}

func (o *outstanding) recognise(n *Node, version int32, data []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if version == n.Version() {
		return true
	}
	if version != 1 || n.rewrite == nil || !bytes.Equal(data, n.rewrite) {
		return false
	}
	n.version.Store(1)
	n.watched = false // the write has fired the watch
	return true
}

// rewriting reports whether the session may have rewritten the node.
func (o *outstanding) rewriting(n *Node) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return n.rewrite != nil
}
