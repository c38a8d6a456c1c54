// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"path"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// transactions checks the writes of contenders to the ensemble itself.
func transactions(t *timeline) []Finding {
	if len(t.state) == 0 {
		return nil
	}
	return slices.Concat(t.heldState(), t.epochOrder(), t.trueAnswers())
}

// holder returns the node of the grant with a token, nil if there is none, and reports whether it existed when a transaction
// was committed.
func (t *timeline) holder(token, zxid history.ID, queue string) (n *node, held bool) {
	// Nodes are in the order of their creation.
	i, _ := slices.BinarySearchFunc(t.nodes, token, func(n *node, token history.ID) int { return cmp.Compare(n.created.Zxid, token) })
	for ; i < len(t.nodes) && t.nodes[i].created.Zxid == token; i++ {
		n = t.nodes[i]
		if isContender(n.created) && path.Dir(n.created.Node) == queue {
			return n, n.created.Zxid < zxid && (n.deleted.Kind == "" || n.deleted.Zxid > zxid)
		}
	}
	return nil, false
}

// heldState checks HeldState.
func (t *timeline) heldState() []Finding {
	var findings []Finding
	for _, e := range t.state {
		if e.Kind != history.Wrote && e.Kind != history.Proclaimed && (e.Kind != history.Claimed || e.Token == 0) {
			continue
		}
		n, held := t.holder(e.Token, e.Zxid, e.Path)
		switch {
		case held:
		case n == nil:
			findings = append(findings, Finding{HeldState, "a contender without a grant wrote to the ensemble", []history.Event{e}})
		default:
			findings = append(findings, Finding{
				HeldState, "a holder whose node was gone wrote to the ensemble", []history.Event{n.created, n.deleted, e},
			})
		}
	}
	return findings
}
