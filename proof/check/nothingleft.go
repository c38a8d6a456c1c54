// SPDX-License-Identifier: Apache-2.0

package check

// NothingLeft: at the end no contender node is left, no number of a slot, and no member's.
var NothingLeft = register(definition{
	name:    "nothing-left",
	meaning: "at the end no contender node is left",
	counts:  "nodes that their contender did not delete itself",
	judge: func(t *timeline, found report) {
		for _, n := range t.owned() {
			if t.end.Kind != "" && n.gone() > t.end.At {
				found("a contender's, a number's or a member's node is left at the end", n.created, t.end)
			}
		}
	},
	tests: perNode(func(_ *timeline, n *node) bool { return n.hold == nil || !n.hold.endedByHolder() }),
})
