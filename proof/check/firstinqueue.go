// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// FirstInQueue: at the instant of a grant, no contender node created before the grant's node still exists, other than
// other readers before a reader's, and permits or slots before permits or slots. That is exclusion in the ensemble's commit order, readers
// and writers included, and it means that no contender overtakes another.
var FirstInQueue = register(definition{
	name:    "first-in-queue",
	meaning: "at a grant, no earlier contender is in the queue",
	counts:  "grants to contenders that had joined behind another",
	judge: eachHold(func(t *timeline, h *hold, found report) {
		if h.contender == nil {
			return
		}
		shared := h.granted.Shared || h.granted.Number != ""
		for _, n := range t.predecessors(h) {
			if n.gone() > h.granted.At && (!shared || !h.contender.sharesWith(n, h.granted.At)) {
				found("granted while another contender was ahead in the queue", h.granted, n.created, n.deleted)
			}
		}
	}),
	tests: perHold(func(t *timeline, h *hold) bool {
		return h.contender != nil && t.joinedBehind(h.contender, h.granted.Path)
	}),
})

// sharesWith reports whether the claims of two nodes do not exclude each other at an instant, if the one of n is shared:
// permits share with permits, and readers with readers.
func (n *node) sharesWith(other *node, at history.Instant) bool {
	if n.weight() > 0 {
		return other.weight() > 0
	}
	return other.sharedAt(at)
}

// predecessors returns the nodes before a hold's node in its queue that may have existed when the hold was granted.
func (t *timeline) predecessors(h *hold) []*node {
	// Neither of two nodes that one transaction created is ahead of the other.
	queue, n := t.contenders[h.granted.Path], t.position(h.contender, h.granted.Path)
	return queue[min(t.settled(h.granted.Path, queue, h.granted.At), n):n]
}

// settled returns how many nodes at the head of a queue were gone at an instant, or fewer. Callers go through grants in the
// order of their lines, whose instants do not fall, so it continues where the last call for the path stopped.
func (t *timeline) settled(path string, queue []*node, at history.Instant) int {
	n := t.cleared[path]
	for n < len(queue) && queue[n].gone() <= at {
		n++
	}
	t.cleared[path] = n
	return n
}

// joinedBehind reports whether an earlier node of the path existed when a node was created.
func (t *timeline) joinedBehind(n *node, path string) bool {
	for _, earlier := range slices.Backward(t.contenders[path][:t.position(n, path)]) {
		if earlier.deleted.Kind == "" || earlier.deleted.Zxid > n.created.Zxid {
			return true
		}
		if n.created.At-earlier.created.At > t.run.Timeout {
			return false // one that waits longer is counted for the nodes directly behind it
		}
	}
	return false
}

// position returns how many nodes of a path were created before n.
func (t *timeline) position(n *node, path string) int {
	i, _ := slices.BinarySearchFunc(t.contenders[path], n, func(a, b *node) int { return cmp.Compare(a.created.Zxid, b.created.Zxid) })
	return i
}
