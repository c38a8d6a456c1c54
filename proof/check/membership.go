// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// TrueMembership: when a client states that its member of a group is registered, a node that its session created
// exists. Excused: a node that an operator deleted T/4 before at most, and contenders that were paused.
var TrueMembership = register(definition{
	name:    "true-membership",
	meaning: "a member that is stated to be registered has a node of its own session",
	counts:  "statements that a member is registered",
	judge: func(t *timeline, found report) {
		for _, e := range t.of(history.Registered) {
			if t.isRegistered(e) {
				continue
			}
			events := []history.Event{e}
			for _, n := range t.children[e.Path] {
				if n.created.Node == e.Node && n.created.Session == e.Session && n.deleted.Kind != "" {
					events = append(events, n.created, n.deleted)
				}
			}
			found("a member was stated to be registered, and its session had no node", events...)
		}
	},
	tests: perEvent(history.Registered),
})

// isRegistered reports whether the node that a member's client states existed at that instant, or its absence is excused.
func (t *timeline) isRegistered(e history.Event) bool {
	return slices.ContainsFunc(t.children[e.Path], func(n *node) bool {
		if n.created.Node != e.Node || n.created.Session != e.Session || n.created.At > e.At {
			return false
		}
		gone := n.goneAtLatest(t.run)
		if n.deleted.Cause == history.ByOperator {
			gone += t.flight() + t.run.Timeout/4 // for which a client without a server does not know
		}
		for _, p := range t.pauses[e.Contender] {
			if p.from < e.At && gone > p.from {
				gone = max(gone, p.to+t.run.Grace)
			}
		}
		return e.At <= gone
	})
}
