// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// A hold is one grant, from its request to its end. Events that the history does not contain have no Kind.
type hold struct {
	asked, granted, downgrading, notified, releasing, released history.Event

	failedAt   history.Instant // of its request, 0 if it did not fail
	node       *node           // the node of the grant, nil if no contender created it; of a slot, its number's
	contender  *node           // the node in the queue, which is the same for all but slots
	next       history.Event   // the first later conflicting grant of the resource with a greater token
	index      int             // among the grants of its resource
	pauses     []interval      // of its contender, in order
	partitions []interval      // of its contender's network, in order
	crashed    bool            // its contender crashed, and was not notified before
	crashedAt  history.Instant // if crashed is set
	margin     history.Instant // between its notification and the timeout of its session, or the expiry of its lease
	run        history.Event   // the Run event of the history
}

// pausedAt reports whether the hold's contender was paused at an instant, or had woken within grace before it, and returns
// the end of that pause.
func (h *hold) pausedAt(at, grace history.Instant) (until history.Instant, paused bool) {
	p, paused := h.pauseAt(at, grace)
	return p.to, paused
}

// pauseAt is pausedAt, and returns the whole pause.
func (h *hold) pauseAt(at, grace history.Instant) (_ interval, paused bool) {
	// Pauses are in order: skip those that begin later. Of the others, only the last can reach the instant.
	n, _ := slices.BinarySearchFunc(h.pauses, at, func(p interval, at history.Instant) int {
		if p.from <= at {
			return -1
		}
		return 1
	})
	if n == 0 {
		return interval{}, false
	}
	p := h.pauses[n-1]
	return p, p.to == never || at <= p.to+grace
}

// scheduledFor returns the instant at which the hold's contender had been scheduled for a time since an instant, never if it did not wake
// again. It can be paused again immediately.
func (h *hold) scheduledFor(since, time history.Instant) history.Instant {
	for _, p := range h.pauses {
		if p.to <= since {
			continue
		}
		awake := max(0, p.from-since)
		if awake >= time {
			break
		}
		if time, since = time-awake, p.to; since == never {
			return never
		}
	}
	return since + time
}

// resource returns what the grants exclude each other from: the path, or one number of its slots. The tokens of a resource rise.
func (h *hold) resource() string {
	if h.granted.Number != "" {
		return numberNode(h.granted)
	}
	return h.granted.Path
}

// nodes returns the nodes of the hold that exist, in the history.
func (h *hold) nodes() (nodes []*node) {
	if h.node != nil {
		nodes = append(nodes, h.node)
	}
	if h.contender != nil && h.contender != h.node {
		nodes = append(nodes, h.contender)
	}
	return nodes
}

// conflicts reports whether a later grant of the resource excludes that the hold still goes on: all do but grants of readers,
// beside a reader or a writer that has begun to downgrade.
func (h *hold) conflicts(later *hold) bool {
	shared := h.granted.Shared || h.downgrading.Kind != "" && later.granted.At >= h.downgrading.At
	return !later.granted.Shared || !shared
}

// grantedAfterDeletion reports whether the grant was recorded when its node was already gone.
func (h *hold) grantedAfterDeletion() bool {
	return h.node != nil && h.granted.At > h.node.goneAtLatest(h.run)
}
