// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"maps"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// readable returns the node if one of the identities has one of the permissions,
// otherwise the code of the refusal.
func (t *Tree) readable(path string, perms int32, ids []Identity) (*node, wire.Code) {
	n := t.node(path)
	switch {
	case n == nil:
		return nil, wire.NoNode
	case !permits(n.acl, perms, ids):
		return nil, wire.NoAuth
	}
	return n, wire.OK
}

// Get reads a node's data, nil if it was created without any. The data must not be
// changed.
func (t *Tree) Get(path string, ids []Identity) ([]byte, wire.Stat, wire.Code) {
	n, code := t.readable(path, wire.PermRead, ids)
	if n == nil {
		return nil, wire.Stat{}, code
	}
	return n.data, n.stat(), wire.OK
}

// Exists reads a node's Stat, which needs no permission. A path with a NUL is refused;
// for any other invalid path there is no node.
func (t *Tree) Exists(path string) (wire.Stat, wire.Code) {
	if strings.IndexByte(path, 0) >= 0 {
		return wire.Stat{}, wire.BadArguments
	}
	n := t.node(path)
	if n == nil {
		return wire.Stat{}, wire.NoNode
	}
	return n.stat(), wire.OK
}

// Children lists the names of a node's children, sorted.
func (t *Tree) Children(path string, ids []Identity) ([]string, wire.Stat, wire.Code) {
	n, code := t.readable(path, wire.PermRead, ids)
	if n == nil {
		return nil, wire.Stat{}, code
	}
	return n.names(), n.stat(), wire.OK
}

// ACL reads a node's ACL, which must not be changed. Clients that may read but not change
// it see "x" in place of the digests of passwords.
func (t *Tree) ACL(path string, ids []Identity) ([]wire.ACL, wire.Stat, wire.Code) {
	n, code := t.readable(path, wire.PermRead|wire.PermAdmin, ids)
	if n == nil {
		return nil, wire.Stat{}, code
	}
	acl := n.acl
	if !permits(acl, wire.PermAdmin, ids) {
		acl = masked(acl)
	}
	return acl, n.stat(), wire.OK
}

// Ephemerals lists the paths of the session's ephemeral nodes that begin with prefix,
// sorted. A blank prefix and "/" stand for all.
func (t *Tree) Ephemerals(session int64, prefix string) []string {
	paths := slices.Sorted(maps.Keys(t.ephemerals[session]))
	if blank := strings.TrimFunc(prefix, func(c rune) bool { return c <= ' ' }); blank == "" || blank == root {
		return paths
	}
	return slices.DeleteFunc(paths, func(path string) bool { return !strings.HasPrefix(path, prefix) })
}

// CountDescendants counts the nodes below a node. For the empty path, which also stands
// for the root, the count includes the root.
func (t *Tree) CountDescendants(path string, ids []Identity) (int32, wire.Code) {
	n, code := t.readable(path, wire.PermRead, ids)
	if n == nil {
		return 0, code
	}
	count := int32(-1)
	if path == "" {
		count = 0
	}
	t.walk(key(path), func(string, *node) { count++ })
	return count, wire.OK
}

// Deletable lists, sorted, the nodes that the leader has to delete at that time: containers
// that have no child but had one, and TTL nodes without children whose last write is more
// than their TTL ago.
func (t *Tree) Deletable(nowMS int64) []string {
	var paths []string
	for path := range t.deletable {
		n := t.nodes[path]
		if len(n.children) > 0 {
			continue
		}
		if n.lifetime == container && n.counter > 0 || n.lifetime == ttlNode && nowMS-n.mtime > n.owner {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// Walk calls f for each node, parents before children and siblings sorted. f must change
// neither the data nor the tree.
func (t *Tree) Walk(f func(path string, data []byte, stat wire.Stat)) {
	t.walk(root, func(path string, n *node) { f(path, n.data, n.stat()) })
}

func (t *Tree) walk(path string, f func(path string, n *node)) {
	n := t.nodes[path]
	f(path, n)
	for _, name := range n.names() {
		t.walk(join(path, name), f)
	}
}
