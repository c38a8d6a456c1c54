// SPDX-License-Identifier: Apache-2.0

package tree

// SetVersions sets versions that a test could reach only with two billion writes.
func (t *Tree) SetVersions(path string, version, aversion int32) {
	t.node(path).version, t.node(path).aversion = version, aversion
}

// Nodes returns a copy without the zxid, for comparisons.
func (t *Tree) Nodes() *Tree {
	c := t.Clone()
	c.zxid = 0
	return c
}
