// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// A change is a change of the number of contenders that wait for a path, or that hold it.
type change struct {
	at               history.Instant
	waiting, holding int
}

// availability computes Unavailable and Unexcused for each path.
func (n *Numbers) availability(t *timeline) {
	for path, times := range t.unavailable() {
		n.Unavailable[path] = times[0].to - times[0].from
		if t.observes {
			if n.Unexcused == nil {
				n.Unexcused = map[string]history.Instant{}
			}
			n.Unexcused[path] = t.longestUnexcused(path, times)
		}
	}
}

// unavailable returns, by path, the times in which contenders waited and none held, the longest first.
func (t *timeline) unavailable() map[string][]interval {
	times := map[string][]interval{}
	for path, changes := range t.changes() {
		slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
		waiting, holding, since := 0, 0, never
		for _, c := range changes {
			waiting, holding = waiting+c.waiting, holding+c.holding
			now := waiting > 0 && holding == 0
			if !now && c.at > since {
				times[path] = append(times[path], interval{from: since, to: c.at})
			}
			if !now {
				since = never
			} else if since == never {
				since = c.at
			}
		}
		slices.SortFunc(times[path], func(a, b interval) int { return cmp.Compare(b.to-b.from, a.to-a.from) })
	}
	return times
}

// changes returns, by path, when contenders began and ceased to wait and to hold.
func (t *timeline) changes() map[string][]change {
	changes := map[string][]change{}
	t.waiting = t.waits()
	for path, waits := range t.waiting {
		for _, w := range waits {
			changes[path] = append(changes[path], change{w.from, 1, 0}, change{w.to, -1, 0})
		}
	}
	for _, h := range t.holds {
		end := max(min(h.believedUntil(), t.goneAt(h.granted.Contender)), h.granted.At)
		path := h.granted.Path
		changes[path] = append(changes[path], change{h.granted.At, 0, 1}, change{end, 0, -1})
	}
	return changes
}

// A wait is the time in which an attempt waited.
type wait struct {
	interval
	asked history.Event
}

// waits returns the waits by path. An attempt with the text "try" does not wait.
func (t *timeline) waits() map[string][]wait {
	waits := map[string][]wait{}
	for _, e := range t.observed {
		if e.Kind != history.Asked || strings.HasPrefix(e.Text, "try") {
			continue
		}
		h, until := t.attempts[e.Attempt], t.goneAt(e.Contender)
		switch {
		case h.granted.Kind != "":
			until = h.granted.At
		case h.failedAt != 0:
			until = h.failedAt
		}
		waits[e.Path] = append(waits[e.Path], wait{interval{from: e.At, to: max(e.At, until)}, e})
	}
	return waits
}

// goneAt returns the instant at which a contender crashed, or of the end.
func (t *timeline) goneAt(contender string) history.Instant {
	if at, crashed := t.crashed[contender]; crashed {
		return at
	}
	return t.lastInstant()
}
