// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"path"
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// HeldState: a write to the ensemble under a grant, such as a value that a leader publishes, is committed while the grant's
// node exists. Nothing is excused, not even an operator's deletion or a pause, because this rule depends on no clock.
var HeldState = register(definition{
	name:    "held-state",
	meaning: "a write to ZooKeeper under a grant is committed while the node of the grant exists",
	counts:  "writes to the ensemble under a grant",
	judge: func(t *timeline, found report) {
		for _, e := range t.state(history.Wrote, history.Proclaimed, history.Claimed) {
			n, held := t.holder(e.Token, e.Zxid, e.Path)
			switch {
			case held, e.Kind == history.Claimed && e.Token == 0:
			case n == nil:
				found("a contender without a grant wrote to the ensemble", e)
			default:
				found("a holder whose node was gone wrote to the ensemble", n.created, n.deleted, e)
			}
		}
	},
	tests: func(t *timeline) int { return len(t.state(history.Wrote, history.Proclaimed)) },
})

// state returns the events of some kinds that concern the ensemble itself: of Wrote, not of registers.
func (t *timeline) state(kinds ...history.Kind) []history.Event {
	return slices.DeleteFunc(t.of(kinds...), func(e history.Event) bool { return e.Kind == history.Wrote && e.Write == 0 })
}

// holder returns the node of the grant with a token, nil if there is none, and reports whether it existed when a transaction
// was committed.
func (t *timeline) holder(token, zxid history.ID, queue string) (n *node, held bool) {
	if n := t.marked[token]; n != nil && path.Dir(n.created.Node) == queue {
		return n, n.existedAt(zxid)
	}
	// Nodes are in the order of their creation.
	i, _ := slices.BinarySearchFunc(t.nodes, token, func(n *node, token history.ID) int { return cmp.Compare(n.created.Zxid, token) })
	for ; i < len(t.nodes) && t.nodes[i].created.Zxid == token; i++ {
		n = t.nodes[i]
		if isContender(n.created) && path.Dir(n.created.Node) == queue {
			return n, n.existedAt(zxid)
		}
	}
	return nil, false
}
