// SPDX-License-Identifier: Apache-2.0

package check

import (
	"github.com/lockkeeper/lockkeeper/internal/history"
)

// Why is the reason for a stale write.
type Why string

const (
	// Paused: the holder was not scheduled when the path was granted again, and wrote when it was scheduled again.
	Paused Why = "paused"
	// ByOperator: an operator deleted the holder's node, or that of the next holder.
	ByOperator Why = "by-hand"
	// NotifiedAndWrote: the holder was notified in time, and had a write under way.
	NotifiedAndWrote Why = "told"
	// Unexcused: none of the above.
	Unexcused Why = "unexcused"
)

// overtaken reports whether a holder was notified only after the path had been granted again, and why.
func (t *timeline) overtaken(h *hold) (why Why, is bool) {
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

// staleWriters returns the attempts that wrote to a register after a write with a greater token.
func (t *timeline) staleWriters() map[int]bool {
	stale := map[int]bool{}
	for _, writes := range t.writes {
		var newest history.ID
		for _, w := range writes {
			if w.wrote.Token < newest {
				stale[w.wrote.Attempt] = true
			}
			newest = max(newest, w.wrote.Token)
		}
	}
	return stale
}

// why returns the reason for an attempt's stale write.
func (t *timeline) why(attempt int) Why {
	h := t.byAttempt[attempt]
	if h == nil { // it was never granted
		return Unexcused
	}
	if why, overtaken := t.overtaken(h); overtaken {
		return why
	}
	return NotifiedAndWrote
}
