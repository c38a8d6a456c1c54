// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"path"
	"strconv"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// PermitsWithinLimit: at the transaction that grants permits, they and the permits of all contender nodes created before that still
// exist, holders or not, are within the limit that is stored then, in the ensemble's commit order. A contender without a
// weight counts as the limit. FirstInQueue does not apply between contenders that have weights. Nothing is excused.
var PermitsWithinLimit = register(definition{
	name:    "permits-within-limit",
	meaning: "at a grant of permits, they and the permits of all earlier contenders are within the limit",
	counts:  "grants of permits",
	judge: func(t *timeline, found report) {
		limits := t.of(history.Limited)
		for _, h := range t.holds {
			if h.claimsPermits() {
				t.checkPermits(h, limits, found)
			}
		}
	},
	tests: perHold(func(_ *timeline, h *hold) bool { return h.claimsPermits() }),
})

// claimsPermits reports whether the hold is one of permits, or of a slot, which is a permit with a number.
func (h *hold) claimsPermits() bool { return h.contender != nil && h.contender.weight() > 0 }

// checkPermits judges a hold of permits.
func (t *timeline) checkPermits(h *hold, limits []history.Event, found report) {
	marked := h.contender.firstWrite(h.granted.At)
	if marked.Kind == "" {
		found("granted without the write that grants permits", h.granted)
		return
	}
	limit := lastBefore(limits, h.granted.Path, marked.Zxid)
	events, sum := []history.Event{h.granted, marked, limit}, h.contender.weight()
	for _, n := range t.contenders[h.granted.Path] {
		if n.created.Zxid < h.contender.created.Zxid && (n.deleted.Kind == "" || n.deleted.Zxid > marked.Zxid) {
			sum += n.permits(limit.Limit)
			events = append(events, n.created)
		}
	}
	if sum > limit.Limit {
		found(fmt.Sprintf("granted as the last of %d permits, and the limit is %d", sum, limit.Limit), events...)
	}
}

// weight returns the number of permits that a contender's node claims, 0 if it claims the queue as a whole. It restates the rule
// of package recipes independently: the name ends in -w<weight>-lock- and the number.
func (n *node) weight() int {
	before, _, found := cutLast(path.Base(n.created.Node), "-lock-")
	if !found {
		return 0
	}
	_, digits, found := cutLast(before, "-w")
	weight, err := strconv.Atoi(digits)
	if !found || err != nil {
		return 0
	}
	return weight
}

// permits returns how many permits the contender counts for.
func (n *node) permits(limit int) int {
	if weight := n.weight(); weight > 0 {
		return weight
	}
	return limit
}

// firstWrite returns the first write of the node's record after its creation, no Kind if there was none until an instant.
func (n *node) firstWrite(until history.Instant) history.Event {
	if len(n.renewed) == 0 || n.renewed[0].At > until {
		return history.Event{}
	}
	return n.renewed[0]
}

// lastBefore returns the last limit of a path that was committed before a transaction.
func lastBefore(limits []history.Event, path string, zxid history.ID) (last history.Event) {
	for _, e := range limits {
		if e.Path == path && e.Zxid < zxid && e.Zxid > last.Zxid {
			last = e
		}
	}
	return last
}
