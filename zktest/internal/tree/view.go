// SPDX-License-Identifier: Apache-2.0

package tree

import "github.com/lockkeeper/lockkeeper/zktest/internal/wire"

// A view is the tree as the operations of a transaction decided so far will leave it. The
// leader decides all of them before it applies any, so that a failure needs no undo.
type view struct {
	tree *Tree
	// pending contains the nodes that differ from the tree's, nil for deleted ones. The map
	// is nil for a request of one operation, which needs none.
	pending map[string]*record
}

// A record is the part of a node that decisions depend on.
type record struct {
	acl      []wire.ACL
	version  int32
	aversion int32
	counter  int32
	children int
	lifetime lifetime
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
		children: len(n.children), lifetime: n.lifetime,
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
