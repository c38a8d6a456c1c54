// SPDX-License-Identifier: Apache-2.0

package check

// OwnNode: a grant belongs to a node that its own session created, and its token is that node's czxid. A slot belongs to its
// number's node.
var OwnNode = register(definition{
	name:    "own-node",
	meaning: "a grant is on a node that its own session created, and the token is its czxid",
	counts:  "grants",
	judge: eachHold(func(_ *timeline, h *hold, found report) {
		if h.node == nil {
			found("granted on a node that this session did not create with that zxid", h.granted)
		}
	}),
	tests: func(t *timeline) int { return len(t.holds) },
})
