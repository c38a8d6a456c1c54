// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"maps"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// readable is the node, if one of the identities has one of the permissions.
func (t *Tree) readable(path string, perms int32, who []Identity) (*node, wire.Code) {
	n := t.node(path)
	switch {
	case n == nil:
		return nil, wire.NoNode
	case !permits(n.acl, perms, who):
		return nil, wire.NoAuth
	}
	return n, wire.OK
}

// Get reads a node's data, nil if it was created with none. It must not be changed.
func (t *Tree) Get(path string, who []Identity) ([]byte, wire.Stat, wire.Code) {
	n, code := t.readable(path, wire.PermRead, who)
	if n == nil {
		return nil, wire.Stat{}, code
	}
	return n.data, n.stat(), wire.OK
}

// Exists reads a node's Stat, for which no permission is needed. A path with a NUL is
// refused, other impossible ones just are not there.
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
func (t *Tree) Children(path string, who []Identity) ([]string, wire.Stat, wire.Code) {
	n, code := t.readable(path, wire.PermRead, who)
	if n == nil {
		return nil, wire.Stat{}, code
	}
	return n.names(), n.stat(), wire.OK
}

// ACL reads a node's ACL, which must not be changed. Those who may only read it see
// "x" for the digests of passwords.
func (t *Tree) ACL(path string, who []Identity) ([]wire.ACL, wire.Stat, wire.Code) {
	n, code := t.readable(path, wire.PermRead|wire.PermAdmin, who)
	if n == nil {
		return nil, wire.Stat{}, code
	}
	acl := n.acl
	if !permits(acl, wire.PermAdmin, who) {
		acl = masked(acl)
	}
	return acl, n.stat(), wire.OK
}

// Ephemerals lists the paths of the session's nodes that begin with prefix, sorted:
// all for a blank prefix or "/".
func (t *Tree) Ephemerals(session int64, prefix string) []string {
	paths := slices.Sorted(maps.Keys(t.ephemerals[session]))
	if blank := strings.TrimFunc(prefix, func(c rune) bool { return c <= ' ' }); blank == "" || blank == root {
		return paths
	}
	return slices.DeleteFunc(paths, func(path string) bool { return !strings.HasPrefix(path, prefix) })
}

// CountDescendants counts the nodes below a node. For the empty path, which is the
// root's other one, the count includes the root.
func (t *Tree) CountDescendants(path string, who []Identity) (int32, wire.Code) {
	n, code := t.readable(path, wire.PermRead, who)
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

// Reapable lists, sorted, what the leader has to delete at that time: containers that
// had a child and have none, and TTL nodes without children that nobody wrote to for
// longer than their time.
func (t *Tree) Reapable(nowMS int64) []string {
	var paths []string
	for path := range t.mortal {
		n := t.nodes[path]
		if len(n.children) > 0 {
			continue
		}
		if n.life == container && n.counter > 0 || n.life == timed && nowMS-n.mtime > n.owner {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// Walk calls f for each node, parents before children and siblings sorted. The data
// must not be changed, nor the tree in the meantime.
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
