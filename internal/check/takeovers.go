// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// takeovers checks CrashOrClean.
func takeovers(t *timeline) []Finding {
	var findings []Finding
	for _, h := range t.holds {
		next := t.takenOver(h)
		if next == nil {
			continue
		}
		gone, events := h.node.gone(), []history.Event{h.granted, h.node.deleted, next.granted}
		if after := next.granted.At - gone; after < t.run.Delay {
			findings = append(findings, Finding{
				CrashOrClean, fmt.Sprintf("granted %v after a holder that did not release, and the lock-delay is %v", after, t.run.Delay), events,
			})
		}
		if !slices.ContainsFunc(t.fenced, func(e history.Event) bool {
			return e.Path == h.granted.Path && e.Token == h.granted.Token && e.At >= gone && e.Line < next.granted.Line
		}) {
			findings = append(findings, Finding{CrashOrClean, "granted after a holder that did not release and was not fenced", events})
		}
	}
	return findings
}

// takenOver returns the next hold of the path by tokens, if the hold was not released and the contenders have a lock-delay.
func (t *timeline) takenOver(h *hold) (next *hold) {
	if t.run.Delay == 0 || t.run.Path != "" && t.run.Path != h.granted.Path || h.node == nil || h.node.deleted.Kind == "" || h.wasReleased() {
		return nil
	}
	for _, other := range t.byPath[h.granted.Path] {
		if other.granted.Token > h.granted.Token && (next == nil || other.granted.Token < next.granted.Token) {
			next = other
		}
	}
	return next
}

// wasReleased reports whether the holder may have released the hold: it began to while it held it, whatever came of that.
func (h *hold) wasReleased() bool {
	return h.releasing.Kind != "" && h.releasing.At <= h.node.goneAtLatest(h.run) && (h.notified.Kind == "" || h.endedByHolder())
}
