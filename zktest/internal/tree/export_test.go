// SPDX-License-Identifier: Apache-2.0

package tree

// PlantVersions sets what a test could only reach with two billion writes.
func (t *Tree) PlantVersions(path string, version, aversion int32) {
	t.node(path).version, t.node(path).aversion = version, aversion
}

// Nodes is a copy without the zxid, to compare.
func (t *Tree) Nodes() *Tree {
	c := t.Clone()
	c.zxid = 0
	return c
}
