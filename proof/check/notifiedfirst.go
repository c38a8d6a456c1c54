// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// NotifiedFirst: a holder is notified before its node is gone and before the path is granted again, other than to a reader
// beside it. Where its session times out and T is at least four ticks, it is notified at least T/8 before the timeout; where
// its lease expires, an eighth of the TTL before. Excused: nodes deleted by an operator, and contenders that were paused at that
// instant, which are notified when they wake.
var NotifiedFirst = register(definition{
	name:    "notified-first",
	meaning: "a holder that loses its lock is notified before another client is granted it",
	counts:  "running holders whose session expired, or whose lock was granted to another client",
	judge: eachHold(func(t *timeline, h *hold, found report) {
		limit := h.limit()
		why, until := h.excuse()
		if h.believedUntil() <= limit || why == excusedDeletion {
			return
		}
		text := ""
		latest := h.scheduledFor(max(h.granted.At, until), t.grace()) // where a pause excuses the holder
		switch {
		case why == excusedPause && until != never && h.believedUntil() > latest:
			text = fmt.Sprintf("not notified by %v; the pause excuses it until %v", latest, until)
		case why != excusedPause && (h.notified.Kind != "" || h.crashed):
			text = fmt.Sprintf("believed until %v that it held the lock; the limit was %v", h.believedUntil(), limit)
		default:
			return
		}
		deleted := history.Event{}
		if h.node != nil {
			deleted = h.node.deleted
		}
		found(text, h.granted, h.notified, deleted, h.next)
	}),
	tests: perHold(func(t *timeline, h *hold) bool {
		return t.lostToAnother(h) || h.lostNode(history.ByTimeout) && !h.unscheduled(t, h.node.gone())
	}),
})
