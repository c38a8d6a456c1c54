// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// Apply applies a transaction that another tree's Commit decided, with the same outcome.
// The transactions must come from that tree, each once and in order: Apply panics on one
// that does not fit.
func (t *Tree) Apply(txn Txn) Outcome {
	out := t.carryOut(txn, txn.Body)
	t.zxid = max(t.zxid, txn.Zxid)
	return out
}

func (t *Tree) carryOut(txn Txn, body any) Outcome {
	switch b := body.(type) {
	case createTxn:
		return t.create(txn, b)
	case deleteTxn:
		return Outcome{Op: b.op, Path: b.path, Changes: []Change{t.remove(txn, b.path)}}
	case setDataTxn:
		n := t.mustHave(txn, b.path)
		n.data, n.version, n.mzxid, n.mtime = b.data, b.version, txn.Zxid, txn.Time
		change := Change{Type: wire.EventNodeDataChanged, Path: b.path, ACL: n.acl}
		return Outcome{Op: wire.OpSetData, Path: b.path, Stat: n.stat(), Changes: []Change{change}}
	case setACLTxn:
		n := t.mustHave(txn, b.path)
		n.acl, n.aversion = b.acl, b.version
		return Outcome{Op: wire.OpSetACL, Path: b.path, Stat: n.stat()}
	case checkTxn:
		return Outcome{Op: wire.OpCheck, Path: b.path}
	case multiTxn:
		out := Outcome{Op: wire.OpMulti, Results: make([]Outcome, 0, len(b.ops))}
		for _, op := range b.ops {
			r := t.carryOut(txn, op)
			if r.Op == wire.OpCreateContainer || r.Op == wire.OpCreateTTL {
				r.Op = wire.OpCreate2
			}
			out.Results = append(out.Results, r)
			out.Changes = append(out.Changes, r.Changes...)
		}
		return out
	case openSessionTxn:
		return Outcome{Op: wire.OpCreateSession}
	case closeSessionTxn:
		out := Outcome{Op: wire.OpCloseSession, Removed: b.paths}
		for _, path := range b.paths {
			out.Changes = append(out.Changes, t.remove(txn, path))
		}
		return out
	case errorTxn:
		return Outcome{Op: b.op, Path: b.path, Code: b.code}
	}
	panic(fmt.Sprintf("tree: %T is not a transaction", body))
}

func (t *Tree) create(txn Txn, b createTxn) Outcome {
	parentPath, name, _ := split(b.path)
	parent := t.mustHave(txn, parentPath)
	if t.nodes[b.path] != nil {
		panic(fmt.Sprintf("tree: transaction %#x creates %q, which exists", txn.Zxid, b.path))
	}
	// The counter only increases, and pzxid with it: at its maximum the counter sticks, and
	// creations no longer change the parent's pzxid.
	if b.counter > parent.counter {
		parent.counter, parent.pzxid = b.counter, txn.Zxid
	}
	parent.addChild(name)
	n := &node{
		data: b.data, acl: b.acl, lifetime: b.lifetime, owner: b.owner,
		czxid: txn.Zxid, mzxid: txn.Zxid, pzxid: txn.Zxid, ctime: txn.Time, mtime: txn.Time,
	}
	if slices.Equal(n.acl, parent.acl) {
		n.acl = parent.acl // share one copy: nearly all nodes have their parent's ACL
	}
	t.nodes[b.path] = n
	switch b.lifetime {
	case ephemeral:
		if t.ephemerals[b.owner] == nil {
			t.ephemerals[b.owner] = make(map[string]struct{}, 1)
		}
		t.ephemerals[b.owner][b.path] = struct{}{}
	case container, ttlNode:
		t.deletable[b.path] = struct{}{}
	}
	change := Change{Type: wire.EventNodeCreated, Path: b.path, ACL: n.acl, ParentACL: parent.acl}
	return Outcome{Op: b.op, Path: b.path, Stat: n.stat(), Changes: []Change{change}}
}

func (t *Tree) remove(txn Txn, path string) Change {
	n := t.mustHave(txn, path)
	parentPath, name, _ := split(path)
	parent := t.mustHave(txn, parentPath)
	parent.removeChild(name)
	parent.pzxid = max(parent.pzxid, txn.Zxid)
	delete(t.nodes, path)
	delete(t.deletable, path)
	if n.lifetime == ephemeral {
		delete(t.ephemerals[n.owner], path)
		if len(t.ephemerals[n.owner]) == 0 {
			delete(t.ephemerals, n.owner)
		}
	}
	return Change{Type: wire.EventNodeDeleted, Path: path, ACL: n.acl, ParentACL: parent.acl}
}

func (t *Tree) mustHave(txn Txn, path string) *node {
	n := t.node(path)
	if n == nil {
		panic(fmt.Sprintf("tree: transaction %#x concerns %q, which does not exist", txn.Zxid, path))
	}
	return n
}
