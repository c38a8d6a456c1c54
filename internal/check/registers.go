// SPDX-License-Identifier: Apache-2.0

package check

import "github.com/lockkeeper/lockkeeper/internal/history"

// registers checks the order in which registers accepted writes. A write is stale if a write with a greater token was
// accepted before it began. The order of overlapping writes is unknown.
func registers(t *timeline) []Finding {
	var findings []Finding
	for _, writes := range t.writes {
		for _, w := range writes {
			newer, certain := newer(writes, w)
			switch {
			case w.wrote.Fenced && w.wrote.Accepted && certain:
				findings = append(findings, Finding{FencedRegister, "a stale write was accepted", []history.Event{newer, w.wrote}})
			case w.wrote.Fenced && !w.wrote.Accepted && newer.Kind == "":
				findings = append(findings, Finding{FencedRegister, "a write was rejected although no newer one was accepted", []history.Event{w.wrote}})
			case !w.wrote.Fenced && w.wrote.Accepted && certain && t.believedToHold(w):
				findings = append(findings, Finding{
					BareRegister, "a holder that had not been notified wrote after a later holder", []history.Event{newer, w.wrote},
				})
			}
		}
	}
	return findings
}

// newer returns an accepted write with a greater token that may have come before w. certain reports that it did.
func newer(writes []write, w write) (found history.Event, certain bool) {
	for _, other := range writes {
		if !other.wrote.Accepted || other.wrote.Shared || other.wrote.Token <= w.wrote.Token {
			continue
		}
		if other.wrote.Line < w.started {
			return other.wrote, true
		}
		if other.started < w.wrote.Line {
			found = other.wrote
		}
	}
	return found, false
}

// believedToHold reports whether the writer had reason to believe that it still held the lock: it had not been notified,
// and is not excused.
func (t *timeline) believedToHold(w write) bool {
	h := t.byAttempt[w.wrote.Attempt]
	if h == nil || w.at >= h.believedUntil() {
		return false
	}
	why, _ := h.excuse()
	return why == notExcused
}
