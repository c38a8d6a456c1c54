// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// OwnDelete: no request deletes the node of another session. A delete can hit a node that has the recurring name of an
// earlier one. The client that created such a node knows this, accepts no grant on it, and deletes it itself, so it is no
// finding. Any session may delete a lease that has expired: whether it had is judged by NotifiedFirst.
var OwnDelete = register(definition{
	name:    "own-delete",
	meaning: "no session deletes the node of another one",
	counts:  "nodes that were deleted on request",
	judge: func(t *timeline, found report) {
		for _, n := range t.owned() {
			d := n.deleted
			if d.Cause == history.ByRequest && d.Session != n.created.Session && n.created.Lease == 0 && (n.hold != nil || !t.recurs(n)) {
				found("a session deleted the node of another session", n.created, d)
			}
		}
	},
	tests: perNode(func(_ *timeline, n *node) bool { return n.deleted.Cause == history.ByRequest && n.created.Lease == 0 }),
})

// recurs reports whether another node can get the name of this one. Lockkeeper's names are <czxid of the parent, base
// 36>-lock-<number>, with -__WRIT__ or -__READ__ in a read/write lock. They recur if the czxid belongs to an earlier parent, or
// if the number is at the end of the counter's range and the name contains no nonce.
func (t *timeline) recurs(n *node) bool {
	name := path.Base(n.created.Node)
	tag, number := name, ""
	for _, separator := range separators {
		if before, after, found := cutLast(name, "-"+separator); found {
			tag, number = before, after
		}
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil && (n < 0 || n >= 1<<31-1<<20) && !strings.Contains(tag, "-") {
		return true
	}
	if weight := n.weight(); weight > 0 {
		tag = strings.TrimSuffix(tag, fmt.Sprintf("-w%d", weight))
	}
	czxid, err := strconv.ParseInt(tag, 36, 64)
	return err == nil && slices.ContainsFunc(t.nodes, func(parent *node) bool {
		return parent.created.Node == path.Dir(n.created.Node) && parent.created.Zxid == history.ID(czxid) &&
			parent.deleted.Kind != "" && parent.deleted.Zxid < n.created.Zxid
	})
}
