// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// TimeToStop: the session of a holder that was notified of a loss deletes its node, of a slot both nodes, no earlier than T/4 after
// that, or when the holder releases: until then its work may not have stopped.
//
// Excused: leases; holders that closed their client or crashed before the deletion, or were paused when they were notified.
var TimeToStop = register(definition{
	name:    "time-to-stop",
	meaning: "after a holder was notified of a loss, its node is kept for T/4, or until it releases",
	counts:  "holders that were notified of a loss, and whose session deleted the node later, while they had not released for T/4",
	judge: eachHold(func(t *timeline, h *hold, found report) {
		for _, n := range h.nodes() {
			if h.deletes(n) && t.freedEarly(h, n) {
				found("a node was deleted before the work of its holder had T/4 to stop", h.granted, h.notified, n.deleted)
			}
		}
	}),
	tests: perHold(func(t *timeline, h *hold) bool {
		return slices.ContainsFunc(h.nodes(), func(n *node) bool {
			return h.deletes(n) && !t.stopped(h, n, min(n.goneAtLatest(t.run), h.notified.At+t.run.Timeout/4-t.grace()))
		})
	}),
})

// deletes reports whether the holder was notified of a loss, and its session deleted the node.
func (h *hold) deletes(n *node) bool {
	return h.notified.Kind != "" && !h.endedByHolder() && h.notified.Cause != history.ClientShut && !h.isLease() &&
		n.deleted.Cause == history.ByRequest && n.deleted.Session == n.created.Session
}

// freedEarly reports whether the node was deleted before the work of its holder had stopped, or had the time to.
func (t *timeline) freedEarly(h *hold, n *node) bool {
	gone := n.goneAtLatest(t.run)
	if t.stopped(h, n, gone) {
		return false
	}
	if _, paused := h.pausedAt(n.gone(), t.run.Timeout/4+t.grace()); paused {
		return false
	}
	return gone+t.resolution() < h.notified.At+t.run.Timeout/4-t.grace()
}

// stopped reports whether the holder had released, closed its client or crashed by an instant.
func (t *timeline) stopped(h *hold, n *node, at history.Instant) bool {
	closed, is := t.closed[n.created.Session]
	return h.releasing.Kind != "" && h.releasing.At <= at || h.crashedAt > 0 && h.crashedAt <= at || is && closed <= at
}
