// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// A change is a change of the number of contenders that wait for a path, or that hold it.
type change struct {
	at               history.Instant
	waiting, holding int
}

// availability computes Unavailable for each path.
func (n *Numbers) availability(t *timeline) {
	changes := t.changes()
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		slices.SortStableFunc(changes[path], func(a, b change) int { return cmp.Compare(a.at, b.at) })
		waiting, holding := 0, 0
		var since history.Instant
		unavailable := false
		for _, c := range changes[path] {
			if unavailable {
				n.Unavailable[path] = max(n.Unavailable[path], c.at-since)
			}
			waiting, holding = waiting+c.waiting, holding+c.holding
			now := waiting > 0 && holding == 0
			if now && !unavailable {
				since = c.at
			}
			unavailable = now
		}
	}
}

// changes returns, by path, when contenders began and ceased to wait and to hold. An attempt that does not wait, with the
// text "try", counts only while it holds.
func (t *timeline) changes() map[string][]change {
	changes := map[string][]change{}
	add := func(path string, at history.Instant, waiting, holding int) {
		changes[path] = append(changes[path], change{at, waiting, holding})
	}
	until := t.lastInstant()
	gone := func(contender string) history.Instant {
		if at, crashed := t.crashed[contender]; crashed {
			return at
		}
		return until
	}
	waits := func(asked history.Event) bool { return !strings.HasPrefix(asked.Text, "try") }
	for _, e := range t.observed {
		switch {
		case e.Kind == history.Asked && waits(e):
			add(e.Path, e.At, 1, 0)
		case (e.Kind == history.Failed || e.Kind == history.Granted) && waits(t.asked(e)):
			add(e.Path, e.At, -1, 0)
		}
	}
	for _, asked := range t.unanswered {
		if waits(asked) {
			add(asked.Path, gone(asked.Contender), -1, 0)
		}
	}
	for _, h := range t.holds {
		end := min(h.believedUntil(), gone(h.granted.Contender))
		add(h.granted.Path, h.granted.At, 0, 1)
		add(h.granted.Path, max(end, h.granted.At), 0, -1)
	}
	return changes
}
