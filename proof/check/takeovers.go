// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// CrashOrClean: after a holder that did not release, the path is granted again only when the lock-delay has passed since
// its node was gone, and when a contender has fenced that holder since. A holder did not release if it lost its claim before it
// began to release it, or crashed before. Histories and paths without a lock-delay are not checked. Nothing is excused.
var CrashOrClean = register(definition{
	name:    "crash-or-clean",
	meaning: "after a holder that did not release, a lock is granted when its delay has passed and the holder was fenced",
	counts:  "grants after a holder that did not release, where there is a lock-delay",
	judge:   crashOrClean,
	tests:   perHold(func(t *timeline, h *hold) bool { return t.takenOver(h) != nil }),
})

func crashOrClean(t *timeline, found report) {
	fenced := t.of(history.Fenced)
	for _, h := range t.holds {
		next := t.takenOver(h)
		if next == nil {
			continue
		}
		gone := h.node.gone()
		if after := next.granted.At - gone; after < t.run.Delay {
			text := fmt.Sprintf("granted %v after a holder that did not release, and the lock-delay is %v", after, t.run.Delay)
			found(text, h.granted, h.node.deleted, next.granted)
		}
		if !slices.ContainsFunc(fenced, func(e history.Event) bool {
			return e.Path == h.granted.Path && e.Token == h.granted.Token && e.At >= gone && e.Line < next.granted.Line
		}) {
			found("granted after a holder that did not release and was not fenced", h.granted, h.node.deleted, next.granted)
		}
	}
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
