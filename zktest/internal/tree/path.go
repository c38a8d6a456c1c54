// SPDX-License-Identifier: Apache-2.0

package tree

import "strings"

// root is where the root's node is kept. ZooKeeper knows it by the empty path too,
// which is what is before the slash of a child of the root.
const root = "/"

func key(path string) string {
	if path == "" {
		return root
	}
	return path
}

// split takes a path apart at its last slash. It says no where ZooKeeper looks no
// further before it asks for the parent: without a slash, and with a NUL.
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

// special are the nodes that cannot be deleted.
func special(path string) bool {
	switch path {
	case root, "/zookeeper", "/zookeeper/quota", "/zookeeper/config":
		return true
	}
	return false
}

// valid is ZooKeeper's PathUtils.validatePath. Not every request is put to it, and
// some only after other checks: deletions and reads just do not find such a node.
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
	// What is no UTF-8 reads as U+FFFD here as in Java, and what is beyond U+FFFF is
	// two surrogates there.
	return strings.IndexFunc(path, forbidden) < 0
}

func forbidden(c rune) bool {
	return c <= 0x1f || c >= 0x7f && c <= 0x9f || c >= 0xd800 && c <= 0xf8ff || c >= 0xfff0
}
