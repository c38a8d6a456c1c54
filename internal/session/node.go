// SPDX-License-Identifier: Apache-2.0

package session

import (
	"strings"
	"sync/atomic"
	"time"
)

// A Node is one ephemeral node, from before its create is sent until its deletion is
// confirmed. It belongs to one session and is deleted with it. It is sequential, unless Name
// is set.
type Node struct {
	Parent string // path of the node above
	Tag    int64  // czxid that the parent was believed to have
	Nonce  string // in the node's data
	Prefix string // of its name, to which the server appends a number
	Above  int32  // the number is larger than this one

	// Name is set for a node whose caller chose its whole name. Another session can have a
	// node of that name, so the session deletes by Path only what Find or the create's answer
	// has shown to be its own. No heartbeat checks the node: Joined is not called for it.
	Name string

	// Lease is set for a node that is persistent. The session is responsible for it only
	// until its create is answered, and deletes it only while no client has written it.
	Lease bool

	// Path is set when it is known, before the caller calls Joined.
	Path string

	version atomic.Int32 // see Version
	unsure  bool         // a deletion of this named node was not answered; of the goroutine that deletes it

	gone chan struct{} // closed once the node does not exist, and never will
	lost chan struct{} // closed when another client deleted or wrote to the node

	// Guarded by outstanding.mu.
	state     state
	index     int       // in outstanding.held, while the node is held
	since     time.Time // when the node was known to exist
	watched   bool      // the session watches the node
	rewrite   []byte    // data that the session has written, or is about to; nil if there is none
	notBefore time.Time // when it may be deleted
	failures  int       // consecutive failures of its deletion
	stopped   bool      // the holder's work has stopped: the node need not be kept
	verified  bool      // proves that its life of the parent goes on
	older     *Node     // the next older node that is verified for that life, nil if none
	younger   *Node     // the next younger one, nil if none
	isLost    bool      // lost is closed, or about to be
	granted   Ender     // what was granted on the node, nil if nothing was
	grantedAt time.Time // when it was
}

// NewNode returns a Node whose create has not been sent.
func NewNode(parent string, tag int64, nonce string) *Node {
	return &Node{Parent: parent, Tag: tag, Nonce: nonce, gone: make(chan struct{}), lost: make(chan struct{})}
}

// Gone returns a channel that is closed once the node does not exist, and never will.
func (n *Node) Gone() <-chan struct{} { return n.gone }

// Lost returns a channel that is closed when another client has deleted the node, or
// written to it.
func (n *Node) Lost() <-chan struct{} { return n.lost }

// deleteVersion returns the version of the node with which it may be deleted.
func (n *Node) deleteVersion() int32 {
	if n.Lease {
		return 0
	}
	return -1
}

// NamedPath returns the path of a node that has a Name.
func (n *Node) NamedPath() string { return strings.TrimSuffix(n.Parent, "/") + "/" + n.Name }

// life returns the life of the parent that the node's name contains.
func (n *Node) life() life { return life{n.Parent, n.Tag} }

// A state is what the session knows of a node.
type state int

const (
	creating  state = iota // the create is in flight
	uncertain              // the create's outcome is unknown, and no caller waits for the node
	held                   // the node exists, of a waiter or a holder
	deleting               // the node exists, and its holder is deleting it
	unwanted               // the node may exist, and must be deleted
	gone                   // no node exists
)

// A life is the time from the creation of a parent until its deletion.
type life struct {
	parent string // path
	tag    int64  // its czxid
}

// endAll ends what was granted on nodes. It returns the nodes whose grant had not ended
// before, and the functions that report the end of each.
func endAll(nodes []*Node, cause error) (ended []*Node, reports []func()) {
	for _, n := range nodes {
		if report := n.granted.End(cause); report != nil {
			ended, reports = append(ended, n), append(reports, report)
		}
	}
	return ended, reports
}

// An Ender is a grant that must end with its session.
type Ender interface {
	// End ends the grant, with that cause. It returns a function that reports the end, to be
	// called once all grants that end with the same cause have ended, or nil if this one had
	// ended before. End is called under no mutex and must not block, except if the cause is
	// ErrClosed: then it may run code of the caller of Close.
	End(cause error) (report func())
}
