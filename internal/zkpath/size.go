// SPDX-License-Identifier: Apache-2.0

package zkpath

import "fmt"

// A server closes the connection over a packet that is larger than its jute.maxbuffer, 1,048,575 bytes by default, and answers
// nothing. The client would send such a request again on each connection, and end all other requests with it. So sizes are
// bounded at the call.
const (
	// MaxPath bounds a path with its namespace, in bytes. A join names it three times.
	MaxPath = 128 << 10

	// MaxNode bounds the path and the data of a node together, in bytes. It leaves room for the ACL.
	MaxNode = MaxTransaction - 16<<10

	// MaxTransaction bounds the operations of one transaction, in bytes.
	MaxTransaction = 1<<20 - 1
)

// CheckSize returns an error for a path that is too long, without all of it.
func CheckSize(path string) error {
	if len(path) > MaxPath {
		return fmt.Errorf("path %q of %d bytes is over the limit of %d, with the namespace: use a shorter one", Abridged(path), len(path), MaxPath)
	}
	return nil
}

// Abridged returns a path, or the beginning of a long one.
func Abridged(path string) string {
	const shown = 64
	if len(path) <= MaxPath {
		return path
	}
	return path[:shown] + "…"
}

// CheckData returns an error for data that does not fit the node at path.
func CheckData(path string, data []byte) error {
	if limit := MaxNode - len(path); len(data) > limit {
		return fmt.Errorf("data of %d bytes is over the limit of %d for this node: store it elsewhere, and a reference here", len(data), limit)
	}
	return nil
}
