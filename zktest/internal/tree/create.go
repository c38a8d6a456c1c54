// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"bytes"
	"fmt"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// maxTTL is ZooKeeper's: what its encoding of an owner has room for.
const maxTTL = 1<<40 - 1

// modeOf is what the flags of a create ask for.
func modeOf(flags int32) (l life, sequential, ok bool) {
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
		return timed, false, true
	case wire.PersistentSequentialTTL:
		return timed, true, true
	}
	return 0, false, false
}

// lifeOf is the life of the node and its owner. The operation has the last word: one
// that wants no Stat with its reply makes no container, whatever its flags, and
// createContainer nothing else.
func (d *decision) lifeOf(req wire.Create) (l life, owner int64, sequential bool, code wire.Code) {
	l, sequential, ok := modeOf(req.Flags)
	if !ok {
		return 0, 0, false, wire.BadArguments
	}
	if l == timed && !d.tree.TTL {
		return 0, 0, false, wire.Unimplemented
	}
	// A createTTL of another mode is refused here whatever its TTL is. Of a negative
	// one a real server dies.
	if (l == timed) != (req.Op == wire.OpCreateTTL) || l == timed && (req.TTL <= 0 || req.TTL > maxTTL) {
		return 0, 0, false, wire.BadArguments
	}
	switch {
	case req.Op == wire.OpCreateContainer:
		return container, 0, sequential, wire.OK
	case l == timed:
		return timed, req.TTL, sequential, wire.OK
	case l == ephemeral:
		return ephemeral, d.session, sequential, wire.OK
	}
	return persistent, 0, sequential, wire.OK
}

func (d *decision) create(req wire.Create) (any, wire.Code) {
	l, owner, sequential, code := d.lifeOf(req)
	if code != wire.OK {
		return nil, code
	}
	parentPath, _, ok := split(req.Path)
	if !ok {
		return nil, wire.BadArguments
	}
	acl, ok := resolve(req.ACL, d.who)
	if !ok {
		return nil, wire.InvalidACL
	}
	parent, ok := d.get(parentPath)
	if !ok {
		return nil, wire.NoNode
	}
	if !permits(parent.acl, wire.PermCreate, d.who) {
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
	if parent.life == ephemeral {
		return nil, wire.NoChildrenForEphemerals
	}
	// Within a transaction the counter wraps around at its end, where the tree's sticks.
	parent.counter++
	parent.children++
	d.put(parentPath, parent)
	d.put(path, record{acl: acl, life: l})
	return createTxn{
		op: req.Op, path: path, data: bytes.Clone(req.Data), acl: acl, life: l, owner: owner, counter: parent.counter,
	}, wire.OK
}
