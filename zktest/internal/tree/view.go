// SPDX-License-Identifier: Apache-2.0

package tree

import "github.com/lockkeeper/lockkeeper/zktest/internal/wire"

// A view is the tree as a transaction's operations so far will leave it. The leader
// decides all of them before it carries out any, so that a failing one needs no
// undoing.
type view struct {
	tree *Tree
	// pending are the nodes that differ from the tree's, nil for those that are gone.
	// It is nil itself where nothing comes after the first operation.
	pending map[string]*record
}

// A record is what decisions need of a node.
type record struct {
	acl      []wire.ACL
	version  int32
	aversion int32
	counter  int32
	children int
	life     life
}

func (v *view) get(path string) (record, bool) {
	path = key(path)
	if r, ok := v.pending[path]; ok {
		if r == nil {
			return record{}, false
		}
		return *r, true
	}
	n := v.tree.nodes[path]
	if n == nil {
		return record{}, false
	}
	return record{
		acl: n.acl, version: n.version, aversion: n.aversion, counter: n.counter,
		children: len(n.children), life: n.life,
	}, true
}

func (v *view) put(path string, r record) {
	if v.pending != nil {
		v.pending[key(path)] = &r
	}
}

func (v *view) remove(path string) {
	if v.pending != nil {
		v.pending[path] = nil
	}
}
