// SPDX-License-Identifier: Apache-2.0

package session

import "time"

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

	// Guarded by outstanding.mu.
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

// A standing says what is known of a node.
type standing int

const (
	joining  standing = iota // the create is on its way
	doubtful                 // the create's outcome is unknown, and no caller waits for the node
	held                     // the node exists, and is waited with or held
	parting                  // the node exists, and its holder is deleting it
	leaving                  // the node may exist, and must go
	cleared                  // no node exists
)

// A life is that of a parent, from its creation until it is deleted.
type life struct {
	parent string // path
	tag    int64  // its czxid
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

// An Ender is what was granted in a session, and must end with it.
type Ender interface {
	// End ends it, for that cause. It returns what reports that, to be called once all
	// that end for the same cause have, or nil if it had ended before. It is called under no
	// lock, and must not wait, except if the cause is ErrClosed: then it may run code of the
	// caller of Close.
	End(cause error) (report func())
}
