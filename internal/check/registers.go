// SPDX-License-Identifier: Apache-2.0

package check

import (
	"github.com/lockkeeper/lockkeeper/internal/history"
)

// registers checks in which order writes were taken. A write is stale if one with a greater token was accepted before
// it was begun; whether one that overlaps with it was before or after, nobody can say.
func registers(s *story) []Finding {
	var findings []Finding
	for _, writes := range s.writes {
		for _, w := range writes {
			newer, certain := newer(writes, w)
			switch {
			case w.wrote.Fenced && w.wrote.Accepted && certain:
				findings = append(findings, Finding{FencedRegister, "a stale write was accepted", []history.Event{newer, w.wrote}})
			case w.wrote.Fenced && !w.wrote.Accepted && newer.Kind == "":
				findings = append(findings, Finding{FencedRegister, "a write was refused although no newer one was accepted", []history.Event{w.wrote}})
			case !w.wrote.Fenced && w.wrote.Accepted && certain && s.believed(w):
				findings = append(findings, Finding{
					BareRegister, "a holder that had not been told wrote after a later one", []history.Event{newer, w.wrote},
				})
			}
		}
	}
	return findings
}

// newer is an accepted write with a greater token that may have come before w; certain, if it did.
func newer(writes []write, w write) (found history.Event, certain bool) {
	for _, other := range writes {
		if !other.wrote.Accepted || other.wrote.Token <= w.wrote.Token {
			continue
		}
		if other.wrote.Line < w.begun {
			return other.wrote, true
		}
		if other.begun < w.wrote.Line {
			found = other.wrote
		}
	}
	return found, false
}

// believed says whether the writer had reason to believe that it still held the lock: it had not been told, and is not
// excused.
func (s *story) believed(w write) bool {
	h := s.byTry[w.wrote.Attempt]
	if h == nil || w.at >= h.when() {
		return false
	}
	why, _ := h.excuse()
	return why == ""
}
