// SPDX-License-Identifier: Apache-2.0

// Package zkpath checks and joins paths of nodes, and bounds their sizes.
package zkpath

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lockkeeper/lockkeeper/internal/protocol"
)

// Check returns what is wrong with path as the node of a recipe, nil if nothing is.
func Check(path string) error {
	if err := CheckSize(path); err != nil {
		return err
	}
	switch {
	case path == "":
		return fmt.Errorf("path %q is empty", path)
	case path[0] != '/':
		return fmt.Errorf("path %q is not absolute", path)
	case path == "/":
		return fmt.Errorf("path %q is the root, which holds more than one recipe", path)
	case !utf8.ValidString(path):
		return fmt.Errorf("path %q is not valid UTF-8", path)
	}
	for _, segment := range strings.Split(path[1:], "/") {
		switch segment {
		case "":
			return fmt.Errorf("path %q has an empty segment", path)
		case ".", "..":
			return fmt.Errorf("path %q has the segment %q, which ZooKeeper refuses", path, segment)
		}
	}
	for _, r := range path {
		// ZooKeeper refuses these, beside the control characters. A character above U+FFFF is two surrogates in Java, which it refuses, too.
		if unicode.IsControl(r) || r >= '\ue000' && r <= '\uf8ff' || r >= '\ufff0' {
			return fmt.Errorf("path %q has the character %U, which ZooKeeper refuses", path, r)
		}
	}
	if strings.HasPrefix(path, "/zookeeper/") || path == "/zookeeper" {
		return fmt.Errorf("path %q belongs to ZooKeeper itself", path)
	}
	return nil
}

// CheckRecipe returns what is wrong with path as the path of a lock, an election, a group, a barrier or an epoch, nil if nothing is. It sends
// no request.
//
// A node whose name ends like a contender's, such as /orders/clock-1700000000, would be a contender of the queue above it, and would
// block that for ever.
func CheckRecipe(path string) error {
	if err := Check(path); err != nil {
		return err
	}
	for _, segment := range strings.Split(path[1:], "/") {
		if protocol.IsContender(segment) {
			return fmt.Errorf("path %q has the segment %q, which ends like a contender's node and would block a lock above it: "+
				"choose a name that does not end in \"lock-\" and a number", path, segment)
		}
	}
	return nil
}

// Full returns the full path of the node at path below the namespace, which is
// empty or an absolute path; "/" is the namespace's own node.
func Full(namespace, path string) string {
	if path == "/" && namespace != "" {
		return namespace
	}
	return namespace + path
}

// Parent returns the path of the node above path, "/" at the top.
func Parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}
