// SPDX-License-Identifier: Apache-2.0

package check

import (
	"path"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// limitSuffix is appended to the path of slots to name the parent of their numbers. It restates the rule of package recipes
// independently.
const limitSuffix = "-limit"

// numberNode returns the node of the number of a slot.
func numberNode(granted history.Event) string {
	return granted.Path + limitSuffix + "/" + granted.Number
}

// isNumber reports whether the node is the number of a slot. Resize creates and deletes numbers in one transaction, which shows that
// they are not in use; these are none.
func (n *node) isNumber() bool {
	_, is := n.number()
	return is && n.created.Session != 0 && n.deleted.Zxid != n.created.Zxid
}

// number returns the number that the node has in its name.
func (n *node) number() (number int, is bool) {
	parent, name := path.Split(n.created.Node)
	number, err := strconv.Atoi(name)
	return number, err == nil && number >= 0 && strings.HasSuffix(parent, limitSuffix+"/")
}
