// SPDX-License-Identifier: Apache-2.0

package check

import "github.com/lockkeeper/lockkeeper/proof/history"

// TimeToStop: the session of a holder that was notified of a loss deletes its node, of a slot its number, no earlier than T/4 after
// that, or when the holder releases: until then its work may not have stopped.
//
// Excused: leases; holders that closed their client, or were paused when they were notified.
var TimeToStop = register(definition{
	name:    "time-to-stop",
	meaning: "after a holder was notified of a loss, its node is kept for T/4, or until it releases",
	counts:  "holders that were notified of a loss, and whose session deleted the node later",
	judge: eachHold(func(t *timeline, h *hold, found report) {
		if h.deletesNode() && t.freedEarly(h) {
			found("a node was deleted before the work of its holder had T/4 to stop", h.granted, h.notified, h.node.deleted)
		}
	}),
	tests: perHold(func(_ *timeline, h *hold) bool { return h.deletesNode() }),
})

// deletesNode reports whether the holder was notified of a loss, and its session deleted the node.
func (h *hold) deletesNode() bool {
	return h.node != nil && h.notified.Kind != "" && !h.endedByHolder() && h.notified.Cause != history.ClientShut && !h.isLease() &&
		h.node.deleted.Cause == history.ByRequest && h.node.deleted.Session == h.node.created.Session
}

// freedEarly reports whether the node was deleted before the work of its holder had stopped, or had the time to.
func (t *timeline) freedEarly(h *hold) bool {
	gone := h.node.goneAtLatest(t.run)
	if h.releasing.Kind != "" && h.releasing.At <= gone {
		return false
	}
	if _, paused := h.pausedAt(h.node.gone(), t.run.Timeout/4+t.grace()); paused {
		return false
	}
	return gone+t.resolution() < h.notified.At+t.run.Timeout/4-t.grace()
}
