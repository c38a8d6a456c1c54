// SPDX-License-Identifier: Apache-2.0

package recipes

import "fmt"

// A server closes the connection over a packet that is larger than its jute.maxbuffer, 1,048,575 bytes by default, and answers
// nothing. The client would send such a request again on each connection, and end all other requests with it. So sizes are
// bounded at the call.
const (
	// maxPath bounds a path with its namespace, in bytes. A join names it three times.
	maxPath = 128 << 10

	// maxNode bounds the path and the data of a node together, in bytes. It leaves room for the ACL.
	maxNode = maxTransaction - 16<<10

	// maxTransaction bounds the operations of one transaction, in bytes.
	maxTransaction = 1<<20 - 1
)

// checkSize returns an error for a path that is too long, without all of it.
func checkSize(path string) error {
	if len(path) > maxPath {
		return fmt.Errorf("path %q of %d bytes is over the limit of %d, with the namespace: use a shorter one", abridged(path), len(path), maxPath)
	}
	return nil
}

// abridged returns a path, or the beginning of a long one.
func abridged(path string) string {
	const shown = 64
	if len(path) <= maxPath {
		return path
	}
	return path[:shown] + "…"
}

// place returns the full path of the node at path below the namespace, or what is wrong with path as the node of a recipe.
func (c *Client) place(path string) (full string, err error) {
	if err := checkPath(path); err != nil {
		return "", err
	}
	full = c.settings.namespace + path
	return full, checkSize(full)
}

// checkData returns an error for data that does not fit the node at path.
func checkData(path string, data []byte) error {
	if limit := maxNode - len(path); len(data) > limit {
		return fmt.Errorf("data of %d bytes is over the limit of %d for this node: store it elsewhere, and a reference here", len(data), limit)
	}
	return nil
}
