// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"path"
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// draining is the text of a leader that prepares to resign.
const draining = "draining"

// TrueLeader: what an observer is shown of a leader is what that leader published last or earlier in its term, in the
// ensemble's commit order. Of two leaders, an observer is shown the one with the greater token last, and the values of one
// in the order in which it published them; the ensemble commits them in this order, too. Nothing is excused, not even a
// pause or a server that lags.
var TrueLeader = register(definition{
	name:    "true-leader",
	meaning: "an observer is shown each leader with what it has published, and no former leader or value after a later one",
	counts:  "leaders that an observer was shown",
	judge:   trueLeaders,
	tests:   perEvent(history.Observed),
})

func trueLeaders(t *timeline, found report) {
	published := t.inCommitOrder(history.Proclaimed)
	newest := map[string]history.Event{} // by path
	for _, e := range published {
		if last := newest[e.Path]; last.Kind != "" && precedes(e, last) {
			found("a value was committed after a later one", last, e)
		}
		newest[e.Path] = e
	}
	shown := map[string]history.Event{} // by contender and path
	for _, e := range t.of(history.Observed) {
		if text := t.untrue(e, published); text != "" {
			found(text, e)
		}
		key := e.Contender + " " + e.Path
		if last := shown[key]; last.Kind != "" && precedes(e, last) {
			found("an observer was shown a former leader or value after a later one", last, e)
		}
		shown[key] = e
	}
}

// precedes reports whether a leader's statement comes before another one: a statement of a former leader, an earlier value, or the
// same value before the leader drained.
func precedes(e, other history.Event) bool {
	return cmp.Or(
		cmp.Compare(e.Token, other.Token), cmp.Compare(e.Write, other.Write), cmp.Compare(len(e.Text), len(other.Text)),
	) < 0
}

// untrue returns what is wrong with what an observer was shown, nothing if it is correct.
func (t *timeline) untrue(e history.Event, published []history.Event) string {
	if !slices.ContainsFunc(t.byZxid[e.Token], func(n *node) bool {
		return isContender(n.created) && path.Dir(n.created.Node) == e.Path && n.created.At <= e.At
	}) {
		return "an observer was shown a leader that never was a candidate"
	}
	if e.Write == 0 && e.Text == "" {
		return ""
	}
	if !slices.ContainsFunc(published, func(p history.Event) bool {
		return p.Path == e.Path && p.Token == e.Token && p.Write == e.Write && p.Text == e.Text && p.At <= e.At
	}) {
		return "an observer was shown a value that the leader had not published"
	}
	return ""
}
