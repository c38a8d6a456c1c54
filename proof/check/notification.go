// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// grace returns how long a contender that wakes, or whose own clock notifies it, may take to notice: the recipes check the
// clock every T/24.
func (t *timeline) grace() history.Instant { return t.run.Timeout/24 + t.run.Grace }

// believedUntil returns the instant until which the holder believed that it held the lock: the instant of its notification, of its
// own release, or of its crash.
func (h *hold) believedUntil() history.Instant {
	if h.crashed && h.releasing.Kind != "" {
		return min(h.crashedAt, h.releasing.At)
	}
	if h.crashed {
		return h.crashedAt
	}
	if h.notified.Kind == "" {
		return never
	}
	if h.releasing.Kind != "" {
		return min(h.notified.At, h.releasing.At) // one that is notified while it begins to release may record the notification later
	}
	return h.notified.At
}

// endedByHolder reports whether the holder ended the grant itself.
func (h *hold) endedByHolder() bool {
	return h.releasing.Kind != "" && (h.notified.Cause == history.GivenUp || h.notified.Cause == history.ClientShut)
}

// limit returns the instant by which the holder must have been notified: before its node is gone, by the margin if its
// session times out or its lease expires, and before the next grant of the resource. The contender's node of a slot, which an operator
// deletes, leaves the number in use.
func (h *hold) limit() history.Instant {
	limit := never
	for _, n := range h.nodes() {
		gone := n.goneAtLatest(h.run)
		switch {
		case n != h.node && n.deleted.Cause == history.ByOperator:
			continue // the number stays in use
		case n.deleted.Cause == history.ByTimeout:
			gone -= h.margin
		}
		limit = min(limit, gone)
	}
	if h.next.Kind != "" {
		limit = min(limit, h.next.At)
	}
	return limit
}

// An excuse is a reason for which package recipes does not promise a notification by the limit.
type excuse string

const (
	notExcused      excuse = ""
	excusedDeletion excuse = "an operator deleted the node or ended the session"
	excusedCrash    excuse = "the contender had crashed"
	excusedPause    excuse = "the contender was paused"
)

// excuse returns the reason for which the holder need not have been notified by its limit, and until when it is excused.
func (h *hold) excuse() (why excuse, until history.Instant) {
	if h.node != nil && h.node.deleted.Cause == history.ByOperator {
		return excusedDeletion, never
	}
	if h.crashed && h.crashedAt <= h.limit() {
		return excusedCrash, never
	}
	if until, paused := h.pausedAt(h.limit(), h.run.Grace); paused {
		return excusedPause, until
	}
	return notExcused, 0
}

// lostNode reports whether a holder that had not crashed lost its node for a cause before it released the lock.
func (h *hold) lostNode(cause history.Cause) bool { return h.node != nil && h.lost(h.node, cause) }

// lostAny is lostNode for any of the hold's nodes.
func (h *hold) lostAny(cause history.Cause) bool {
	return slices.ContainsFunc(h.nodes(), func(n *node) bool { return h.lost(n, cause) })
}

// lost is lostNode for one of the hold's nodes.
func (h *hold) lost(n *node, cause history.Cause) bool {
	if n.deleted.Cause != cause || h.crashed && h.crashedAt <= n.gone() {
		return false
	}
	return !h.endedByHolder() || h.believedUntil() > n.gone()
}

// lostToAnother reports whether a running holder lost its lock, other than to an operator, and another client was granted it
// next.
func (t *timeline) lostToAnother(h *hold) bool {
	next, _ := t.following(h)
	if next.Kind == "" || t.acquiredAgain(h, next) || h.endedByHolder() && h.believedUntil() <= next.At || h.crashed && h.crashedAt <= next.At {
		return false
	}
	if h.node != nil && (h.node.deleted.Cause == history.ByOperator || h.node.deleted.Cause == history.ByRequest) {
		return false // its own client deleted it, after its deadline
	}
	return !h.unscheduled(t, next.At)
}

// acquiredAgain reports whether the next grant is the holder's own contender's, which requested it after it had lost the lock.
func (t *timeline) acquiredAgain(h *hold, next history.Event) bool {
	return next.Contender == h.granted.Contender && t.asked(next).At >= h.believedUntil()
}
