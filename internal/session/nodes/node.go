// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"strings"
	"sync/atomic"
)

// A Kind is the kind of a node. It decides how long the session is responsible for the node, and how the session may delete it.
type Kind int

// The kinds of nodes.
const (
	// A Contender is the ephemeral sequential node of a waiter or a holder. Heartbeats check it.
	Contender Kind = iota

	// A Named node is ephemeral, and its caller chose its whole name. Another session can have a node of that name, so
	// the session deletes by Path only what a search or the create's answer has shown to be its own. No heartbeat checks it.
	Named

	// A Lease is a persistent sequential node. The session is responsible for it only until its create is answered, and
	// deletes it only while no client has written it.
	Lease
)

// DeleteVersion returns the version of a node of that kind with which it may be deleted.
func (k Kind) DeleteVersion() int32 {
	if k == Lease {
		return 0
	}
	return -1
}

// A Node is one node, from before its create is sent until its deletion is confirmed. It belongs to one session. What a
// session knows of it is in the session's Set.
type Node struct {
	Kind   Kind
	Parent string // path of the node above
	Tag    int64  // czxid that the parent was believed to have
	Nonce  string // in the node's data
	Prefix string // of a sequential node's name, to which the server appends a number
	Above  int32  // the number is larger than this one
	Name   string // of a Named node, empty for others

	// Path is set by the goroutine that knows first that the node exists, before it passes the node to the Set again. It is
	// constant from then on.
	Path string

	version atomic.Int32  // see Version
	isLost  atomic.Bool   // lost is closed, or about to be
	lost    chan struct{} // closed when another client deleted or wrote to the node
	gone    chan struct{} // closed once the node does not exist, and never will
}

// NewNode returns a Contender whose create has not been sent.
func NewNode(parent string, tag int64, nonce string) *Node {
	return &Node{Parent: parent, Tag: tag, Nonce: nonce, gone: make(chan struct{}), lost: make(chan struct{})}
}

// NewNamed returns a Named node whose create has not been sent.
func NewNamed(parent, name, nonce string) *Node {
	n := NewNode(parent, 0, nonce)
	n.Kind, n.Name = Named, name
	return n
}

// NamedPath returns the path of a Named node, whether it exists or not.
func (n *Node) NamedPath() string { return strings.TrimSuffix(n.Parent, "/") + "/" + n.Name }

// Gone returns a channel that is closed once the node does not exist, and never will.
func (n *Node) Gone() <-chan struct{} { return n.gone }

// Lost returns a channel that is closed when another client has deleted the node, or
// written to it.
func (n *Node) Lost() <-chan struct{} { return n.lost }

// CloseLost closes the channel of Lost. Only the caller of the first Lose calls it, once the grant on the node has ended.
func (n *Node) CloseLost() { close(n.lost) }

// Version returns the version that the node has while no other client has written it: 0, or 1
// once the session has rewritten it.
func (n *Node) Version() int32 { return n.version.Load() }
