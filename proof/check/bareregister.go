// SPDX-License-Identifier: Apache-2.0

package check

import "github.com/lockkeeper/lockkeeper/proof/history"

// BareRegister: a register that checks nothing receives no older token after a newer one either, unless the writer is
// excused.
var BareRegister = register(definition{
	name:    "bare-register",
	meaning: "a holder that has not been notified sends no stale write",
	counts:  "running holders that lost the lock to another client",
	judge: eachWrite(false, func(t *timeline, w write, newer history.Event, certain bool, found report) {
		if w.wrote.Accepted && certain && t.believedToHold(w) {
			found("a holder that had not been notified wrote after a later holder", newer, w.wrote)
		}
	}),
	tests: perHold((*timeline).lostToAnother),
})

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
