// SPDX-License-Identifier: Apache-2.0

package tree

import "strings"

// root is the path under which the root is stored. ZooKeeper accepts the empty path for it
// too, which precedes the slash in the path of a child of the root.
const root = "/"

// key returns the path under which the node at path is stored.
func key(path string) string {
	if path == "" {
		return root
	}
	return path
}

// split splits a path at its last slash. It reports false for the paths that ZooKeeper
// rejects before it looks up the parent: those without a slash, or with a NUL.
func split(path string) (parent, name string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 || strings.IndexByte(path, 0) >= 0 {
		return "", "", false
	}
	return path[:i], path[i+1:], true
}

func join(parent, name string) string {
	if parent == root {
		return root + name
	}
	return parent + "/" + name
}

// undeletable reports whether the node is one that ZooKeeper never deletes.
func undeletable(path string) bool {
	switch path {
	case root, "/zookeeper", "/zookeeper/quota", "/zookeeper/config":
		return true
	}
	return false
}

// valid is ZooKeeper's PathUtils.validatePath. Not every request is checked with it, and
// some only after other checks: deletions and reads simply find no such node.
func valid(path string) bool {
	if path == root {
		return true
	}
	if path == "" || path[0] != '/' {
		return false
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	// Invalid UTF-8 reads as U+FFFD here as in Java, and a character beyond U+FFFF is two
	// surrogates in Java.
	return strings.IndexFunc(path, forbidden) < 0
}

func forbidden(c rune) bool {
	return c <= 0x1f || c >= 0x7f && c <= 0x9f || c >= 0xd800 && c <= 0xf8ff || c >= 0xfff0
}
