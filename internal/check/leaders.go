// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// draining is the text of a leader that prepares to resign.
const draining = "draining"

// leaders checks TrueLeader.
func leaders(t *timeline) []Finding {
	var findings []Finding
	published := slices.DeleteFunc(slices.Clone(t.state), func(e history.Event) bool { return e.Kind != history.Proclaimed })
	slices.SortStableFunc(published, func(a, b history.Event) int { return cmp.Compare(a.Zxid, b.Zxid) })
	newest := map[string]history.Event{} // by path
	for _, e := range published {
		if last := newest[e.Path]; last.Kind != "" && precedes(e, last) {
			findings = append(findings, Finding{TrueLeader, "a value was committed after a later one", []history.Event{last, e}})
		}
		newest[e.Path] = e
	}
	shown := map[string]history.Event{} // by contender and path
	for _, e := range t.shown {
		if text := t.untrue(e, published); text != "" {
			findings = append(findings, Finding{TrueLeader, text, []history.Event{e}})
		}
		key := e.Contender + " " + e.Path
		if last := shown[key]; last.Kind != "" && precedes(e, last) {
			findings = append(findings, Finding{TrueLeader, "an observer was shown a former leader or value after a later one", []history.Event{last, e}})
		}
		shown[key] = e
	}
	return findings
}

// precedes reports whether a leader's statement comes before another one: that of a former leader, an earlier value, or the
// same value before the leader drained.
func precedes(e, other history.Event) bool {
	return cmp.Or(
		cmp.Compare(e.Token, other.Token), cmp.Compare(e.Write, other.Write), cmp.Compare(len(e.Text), len(other.Text)),
	) < 0
}

// untrue returns what is wrong with what an observer was shown, nothing if it is correct.
func (t *timeline) untrue(e history.Event, published []history.Event) string {
	if !slices.ContainsFunc(t.byZxid[e.Token], func(n *node) bool { return isContender(n.created) && n.created.At <= e.At }) {
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
