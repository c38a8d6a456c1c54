// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// SoleHolder: no running holder believes that it holds a lock that has since been granted to another client. It is weaker
// than NotifiedFirst and needs no nodes and no commit order, so it also applies to locks that promise nothing more. Excused:
// nodes of the holder or of the other client that an operator deleted; contenders that are not scheduled, until they have
// been scheduled for T/24. Only StaleBeliefs checks it.
var SoleHolder = register(definition{
	name:    "alone",
	meaning: "no running holder believes that it holds a lock that was granted to another client",
	counts:  "running holders that lost the lock to another client",
	judge: eachHold(func(t *timeline, h *hold, found report) {
		next, _ := t.following(h)
		if from, to := t.staleBelief(h, next); to > from {
			text := fmt.Sprintf("believed that it held a lock granted to another client, for %v from %v", to-from, from)
			found(text, h.granted, next, h.notified, h.releasing)
		}
	}),
	tests: perHold((*timeline).lostToAnother),
})

// StaleBeliefs returns the violations of SoleHolder in a history.
func StaleBeliefs(events []history.Event) []Finding {
	t, findings := newTimeline(events)
	if len(findings) > 0 {
		return findings
	}
	return t.findings(SoleHolder)
}

// staleBelief returns the interval in which a running holder still believed it held a lock that had been granted to
// another client. The interval begins when a holder that was not scheduled has run for grace, and ends when the holder is
// paused. It is empty if to is not greater than from.
func (t *timeline) staleBelief(h *hold, next history.Event) (from, to history.Instant) {
	if next.Kind == "" || h.node != nil && h.node.deleted.Cause == history.ByOperator {
		return 0, 0
	}
	from, to = next.At, min(h.believedUntil(), t.lastInstant())
	for {
		until, paused := h.pausedAt(from, t.grace())
		if !paused {
			for _, p := range h.pauses {
				if p.from > from {
					return from, min(to, p.from)
				}
			}
			return from, to
		}
		if until == never {
			return 0, 0
		}
		from = until + t.grace() + 1
	}
}
