// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"bytes"
	"fmt"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// maxTTL is ZooKeeper's: the greatest that fits in its encoding of an owner.
const maxTTL = 1<<40 - 1

// modeOf returns the lifetime that the flags of a create request, and whether the name is
// sequential. It reports false for unknown flags.
func modeOf(flags int32) (life lifetime, sequential, ok bool) {
	switch flags {
	case wire.Persistent:
		return persistent, false, true
	case wire.Ephemeral:
		return ephemeral, false, true
	case wire.PersistentSequential:
		return persistent, true, true
	case wire.EphemeralSequential:
		return ephemeral, true, true
	case wire.Container:
		return container, false, true
	case wire.PersistentWithTTL:
		return ttlNode, false, true
	case wire.PersistentSequentialTTL:
		return ttlNode, true, true
	}
	return 0, false, false
}

// lifetimeOf returns the lifetime and the owner of the node that a request creates. The
// operation overrides the flags: one whose reply has no Stat creates no container, and
// createContainer creates nothing else.
func (d *decision) lifetimeOf(req wire.Create) (life lifetime, owner int64, sequential bool, code wire.Code) {
	life, sequential, ok := modeOf(req.Flags)
	if !ok {
		return 0, 0, false, wire.BadArguments
	}
	if life == ttlNode && !d.tree.TTL {
		return 0, 0, false, wire.Unimplemented
	}
	// A createTTL of another mode is refused here regardless of its TTL. A negative TTL
	// crashes a real server.
	if (life == ttlNode) != (req.Op == wire.OpCreateTTL) || life == ttlNode && (req.TTL <= 0 || req.TTL > maxTTL) {
		return 0, 0, false, wire.BadArguments
	}
	switch {
	case req.Op == wire.OpCreateContainer:
		return container, 0, sequential, wire.OK
	case life == ttlNode:
		return ttlNode, req.TTL, sequential, wire.OK
	case life == ephemeral:
		return ephemeral, d.session, sequential, wire.OK
	}
	return persistent, 0, sequential, wire.OK
}

func (d *decision) create(req wire.Create) (any, wire.Code) {
	life, owner, sequential, code := d.lifetimeOf(req)
	if code != wire.OK {
		return nil, code
	}
	parentPath, _, ok := split(req.Path)
	if !ok {
		return nil, wire.BadArguments
	}
	acl, ok := d.resolve(req.ACL)
	if !ok {
		return nil, wire.InvalidACL
	}
	parent, ok := d.get(parentPath)
	if !ok {
		return nil, wire.NoNode
	}
	if !permits(parent.acl, wire.PermCreate, d.identities) {
		return nil, wire.NoAuth
	}
	path := req.Path
	if sequential {
		path += fmt.Sprintf("%010d", parent.counter)
	}
	if !valid(path) {
		return nil, wire.BadArguments
	}
	if _, exists := d.get(path); exists {
		return nil, wire.NodeExists
	}
	if parent.lifetime == ephemeral {
		return nil, wire.NoChildrenForEphemerals
	}
	// Within a transaction the counter wraps around at its maximum, where the tree's sticks.
	parent.counter++
	parent.children++
	d.put(parentPath, parent)
	d.put(path, record{acl: acl, lifetime: life})
	return createTxn{
		op: req.Op, path: path, data: bytes.Clone(req.Data), acl: acl, lifetime: life, owner: owner, counter: parent.counter,
	}, wire.OK
}
