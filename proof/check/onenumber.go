// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"path"
	"strings"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// OneNumber: the transaction that creates the node of a slot's number also writes, for the first time, the record of a contender of
// the same session, under a limit above the number; and a slot is granted to that contender. While the node exists, no limit is stored
// that is not above the number. The node is deleted with the contender's; TimeToStop judges when. The names of the nodes exclude that
// one number is granted twice at a time; whether its holders believed so is judged by NotifiedFirst, and their tokens by RisingTokens.
//
// Excused: numbers that an operator deleted.
var OneNumber = register(definition{
	name:    "one-number",
	meaning: "the number of a slot is granted with the contender, below the limit, and freed with the contender",
	counts:  "grants of a number",
	judge: func(t *timeline, found report) {
		limits := t.of(history.Limited)
		for _, n := range t.nodes {
			if n.isNumber() {
				t.checkNumber(n, limits, found)
			}
		}
		for _, h := range t.holds {
			if h.granted.Number != "" && h.node != nil && h.contender == nil {
				found("granted with the number of another contender", h.granted, h.node.created)
			}
		}
	},
	tests: perNode(func(_ *timeline, n *node) bool { return n.isNumber() }),
})

// checkNumber judges the node of a number.
func (t *timeline) checkNumber(n *node, limits []history.Event, found report) {
	number, _ := n.number()
	slots := strings.TrimSuffix(path.Dir(n.created.Node), limitSuffix)
	c := t.marked[n.created.Zxid]
	if c == nil || path.Dir(c.created.Node) != slots || c.created.Session != n.created.Session {
		found("a number was created without the first write of a contender's record", n.created)
		return
	}
	if limit := lastBefore(limits, slots, n.created.Zxid); number >= limit.Limit {
		found(fmt.Sprintf("number %d was granted, and the limit is %d", number, limit.Limit), n.created, limit)
	}
	for _, limit := range limits {
		if limit.Path == slots && n.existedAt(limit.Zxid) && number >= limit.Limit {
			found(fmt.Sprintf("number %d is in use, and the limit becomes %d", number, limit.Limit), n.created, limit)
		}
	}
	if c.deleted.Cause == history.ByRequest && (n.deleted.Kind == "" || n.deleted.Zxid > c.deleted.Zxid) {
		found("a contender was deleted without its number", n.created, c.deleted, n.deleted)
	}
}
