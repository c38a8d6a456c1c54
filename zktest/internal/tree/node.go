// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"maps"
	"slices"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A node lives under its path in Tree.nodes. What its data and ACL point to is never
// changed, only replaced: Clone and Txns share it.
type node struct {
	data     []byte
	acl      []wire.ACL
	children map[string]struct{} // by name, which shares its memory with the child's path; nil if there are none

	czxid, mzxid, pzxid int64
	ctime, mtime        int64
	// owner is the session of an ephemeral node, the milliseconds of a TTL node.
	owner int64

	version, aversion int32
	// counter is how many children were ever created, and the next sequential one's
	// number. What clients see as cversion counts deletions too.
	counter int32
	life    life
}

// A life is what ends a node besides its deletion.
type life uint8

const (
	persistent life = iota
	ephemeral       // ends with its session
	container       // ends after its last child
	timed           // ends some time after it was last written to, if it has no children
)

// stat is what clients see: of containers and TTL nodes no owner, and a cversion that
// moves by one with each creation and each deletion of a child. Both the doubling and
// the counter may wrap around, as Java's do.
func (n *node) stat() wire.Stat {
	children := int32(len(n.children)) //nolint:gosec // not so many fit in memory
	s := wire.Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.pzxid, Ctime: n.ctime, Mtime: n.mtime,
		Version: n.version, Cversion: n.counter*2 - children, Aversion: n.aversion,
		DataLength:  int32(len(n.data)), //nolint:gosec // a frame is bounded
		NumChildren: children,
	}
	if n.life == ephemeral {
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
