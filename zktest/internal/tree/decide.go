// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"bytes"
	"fmt"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A decision decides one request. It checks in the order of ZooKeeper's
// PrepRequestProcessor, because the order is visible: a request often has two errors.
type decision struct {
	view
	session    int64
	identities []Identity
}

// decide returns the body of the request's transaction, or the code of its refusal.
func (d *decision) decide(req any) (body any, code wire.Code) {
	switch req := req.(type) {
	case wire.Create:
		return d.create(req)
	case wire.Delete:
		return d.delete(req)
	case DeleteContainer:
		return d.deleteContainer(req)
	case wire.SetData:
		return d.setData(req)
	case wire.SetACL:
		return d.setACL(req)
	case wire.Check:
		return d.check(req)
	case wire.Multi:
		return d.multi(req)
	case wire.CloseSession:
		return closeSessionTxn{paths: d.tree.Ephemerals(d.session, root)}, wire.OK
	case OpenSession:
		return openSessionTxn{}, wire.OK
	case wire.Reconfig:
		return nil, wire.ReconfigDisabled // ZooKeeper's default
	case Refused:
		return nil, req.Code
	}
	panic(fmt.Sprintf("tree: %T is not a request that changes something", req))
}

// objectOf returns the operation and the path that a refusal of the request names.
func objectOf(req any) (wire.Op, string) {
	switch req := req.(type) {
	case wire.Create:
		return req.Op, req.Path
	case wire.Delete:
		return wire.OpDelete, req.Path
	case DeleteContainer:
		return wire.OpDeleteContainer, req.Path
	case wire.SetData:
		return wire.OpSetData, req.Path
	case wire.SetACL:
		return wire.OpSetACL, req.Path
	case wire.Check:
		return wire.OpCheck, req.Path
	case wire.Multi:
		return wire.OpMulti, ""
	case wire.Reconfig:
		return wire.OpReconfig, ""
	case Refused:
		return req.Op, req.Path
	}
	panic(fmt.Sprintf("tree: %T cannot be refused", req))
}

func (d *decision) delete(req wire.Delete) (any, wire.Code) {
	parentPath, _, ok := split(req.Path)
	if !ok || undeletable(req.Path) {
		return nil, wire.BadArguments
	}
	parent, ok := d.get(parentPath)
	if !ok {
		return nil, wire.NoNode
	}
	if !permits(parent.acl, wire.PermDelete, d.identities) {
		return nil, wire.NoAuth
	}
	n, ok := d.get(req.Path)
	switch {
	case !ok:
		return nil, wire.NoNode
	case req.Version != -1 && req.Version != n.version:
		return nil, wire.BadVersion
	case n.children > 0:
		return nil, wire.NotEmpty
	}
	parent.children--
	d.put(parentPath, parent)
	d.remove(req.Path)
	return deleteTxn{op: wire.OpDelete, path: req.Path}, wire.OK
}

// deleteContainer refuses only a node with children and an ephemeral node.
func (d *decision) deleteContainer(req DeleteContainer) (any, wire.Code) {
	if _, _, ok := split(req.Path); !ok || undeletable(req.Path) {
		return nil, wire.BadArguments
	}
	n, ok := d.get(req.Path)
	switch {
	case !ok:
		return nil, wire.NoNode
	case n.children > 0:
		return nil, wire.NotEmpty
	case n.lifetime == ephemeral:
		return nil, wire.BadVersion
	}
	return deleteTxn{op: wire.OpDeleteContainer, path: req.Path}, wire.OK
}

func (d *decision) setData(req wire.SetData) (any, wire.Code) {
	if !valid(req.Path) {
		return nil, wire.BadArguments
	}
	n, ok := d.get(req.Path)
	switch {
	case !ok:
		return nil, wire.NoNode
	case !permits(n.acl, wire.PermWrite, d.identities):
		return nil, wire.NoAuth
	case req.Version != -1 && req.Version != n.version:
		return nil, wire.BadVersion
	}
	n.version++
	d.put(req.Path, n)
	return setDataTxn{path: req.Path, data: bytes.Clone(req.Data), version: n.version}, wire.OK
}

func (d *decision) setACL(req wire.SetACL) (any, wire.Code) {
	if !valid(req.Path) {
		return nil, wire.BadArguments
	}
	acl, ok := d.resolve(req.ACL)
	if !ok {
		return nil, wire.InvalidACL
	}
	n, ok := d.get(req.Path)
	switch {
	case !ok:
		return nil, wire.NoNode
	case !permits(n.acl, wire.PermAdmin, d.identities):
		return nil, wire.NoAuth
	case req.Version != -1 && req.Version != n.aversion:
		return nil, wire.BadVersion
	}
	return setACLTxn{path: req.Path, acl: acl, version: n.aversion + 1}, wire.OK
}

func (d *decision) check(req wire.Check) (any, wire.Code) {
	if !valid(req.Path) {
		return nil, wire.BadArguments
	}
	n, ok := d.get(req.Path)
	switch {
	case !ok:
		return nil, wire.NoNode
	case !permits(n.acl, wire.PermRead, d.identities):
		return nil, wire.NoAuth
	case req.Version != -1 && req.Version != n.version:
		return nil, wire.BadVersion
	}
	return checkTxn{path: req.Path}, wire.OK
}
