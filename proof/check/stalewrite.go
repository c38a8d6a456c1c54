// SPDX-License-Identifier: Apache-2.0

package check

import "github.com/lockkeeper/lockkeeper/proof/history"

// A Reason is the cause of a stale write.
type Reason string

const (
	// Paused: the holder was not scheduled when the path was granted again, or when it had to be notified, and wrote when it was scheduled again.
	Paused Reason = "paused"
	// ByOperator: an operator deleted the holder's node, or the next holder's.
	ByOperator Reason = "by-hand"
	// NotifiedAndWrote: the holder was notified in time, or released, or crashed, and had a write in flight.
	NotifiedAndWrote Reason = "told"
	// Unexcused: none of the above.
	Unexcused Reason = "unexcused"
)

// String returns the reason in words. Documents contain its value, which does not change.
func (r Reason) String() string {
	switch r {
	case ByOperator:
		return "after an operator's deletion"
	case NotifiedAndWrote:
		return "notified"
	}
	return string(r)
}

// notifiedLate reports whether a holder was notified only after the path had been granted again, and returns the reason.
func (t *timeline) notifiedLate(h *hold) (why Reason, late bool) {
	next, astray := t.following(h)
	switch {
	case next.Kind != "" && h.believedUntil() > next.At:
		if h.node != nil && h.node.deleted.Cause == history.ByOperator {
			return ByOperator, true
		}
		if h.unscheduled(t, next.At) {
			return Paused, true
		}
		return Unexcused, true
	case astray.Kind != "" && h.believedUntil() > astray.At:
		return ByOperator, true
	}
	return "", false
}

// staleWriters returns, by attempt, the first write to a register after a write with a greater token.
func (t *timeline) staleWriters() map[int]write {
	stale := map[int]write{}
	for _, writes := range t.writes {
		var newest history.ID
		for _, w := range writes {
			first, known := stale[w.wrote.Attempt]
			if w.wrote.Token < newest && (!known || w.wrote.Line < first.wrote.Line) {
				stale[w.wrote.Attempt] = w
			}
			if !w.wrote.Shared {
				newest = max(newest, w.wrote.Token)
			}
		}
	}
	return stale
}

// reasonOf returns the reason for a stale write.
func (t *timeline) reasonOf(w write) Reason {
	h := t.byAttempt[w.wrote.Attempt]
	if h == nil { // it was never granted
		return Unexcused
	}
	if why, late := t.notifiedLate(h); late {
		return why
	}
	if h.believedUntil() <= w.wrote.At || h.releasing.Kind != "" && h.releasing.At <= w.wrote.At {
		return NotifiedAndWrote
	}
	// The path had been granted again before the holder recorded its own grant.
	switch why, _ := h.excuse(); why {
	case excusedPause:
		return Paused
	case excusedDeletion:
		return ByOperator
	case excusedCrash, notExcused:
	}
	return Unexcused
}
