// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"maps"
	"slices"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A node is stored under its path in Tree.nodes. Its data and ACL are never modified, only
// replaced: Clone and Txns share them.
type node struct {
	data     []byte
	acl      []wire.ACL
	children map[string]struct{} // names, which share memory with the children's paths; nil if there are none

	czxid, mzxid, pzxid int64
	ctime, mtime        int64
	// owner is the session of an ephemeral node, the milliseconds of a TTL node.
	owner int64

	version, aversion int32
	// counter is the number of children created so far, and the number of the next
	// sequential one. The cversion that clients see counts deletions too.
	counter  int32
	lifetime lifetime
}

// A lifetime is the event, besides a client's delete, that ends a node.
type lifetime uint8

const (
	persistent lifetime = iota
	ephemeral           // ends with its session
	container           // ends after its last child
	ttlNode             // ends when its TTL has passed since its last write, if it has no children
)

// stat returns the Stat that clients see: without an owner for containers and TTL nodes,
// and with a cversion that increases by one with each creation and each deletion of a
// child. Both the doubling and the counter may wrap around, as in Java.
func (n *node) stat() wire.Stat {
	children := int32(len(n.children)) //nolint:gosec // memory bounds them
	s := wire.Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.pzxid, Ctime: n.ctime, Mtime: n.mtime,
		Version: n.version, Cversion: n.counter*2 - children, Aversion: n.aversion,
		DataLength:  int32(len(n.data)), //nolint:gosec // a frame is bounded
		NumChildren: children,
	}
	if n.lifetime == ephemeral {
		s.EphemeralOwner = n.owner
	}
	return s
}

func (n *node) names() []string { return slices.Sorted(maps.Keys(n.children)) }

func (n *node) addChild(name string) {
	if n.children == nil {
		n.children = make(map[string]struct{}, 1)
	}
	n.children[name] = struct{}{}
}

func (n *node) removeChild(name string) {
	delete(n.children, name)
	if len(n.children) == 0 {
		n.children = nil
	}
}
