// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// LivingNode: at the instant of a grant, its node exists, and both nodes of a slot. Excused: a node that an operator deleted a moment before, and
// contenders that were paused.
var LivingNode = register(definition{
	name:    "living-node",
	meaning: "at a grant, its node exists",
	counts:  "waiters whose node was deleted before a grant, by an operator or at the session timeout",
	judge: eachHold(func(t *timeline, h *hold, found report) {
		for _, n := range h.nodes() {
			if h.granted.At > n.goneAtLatest(h.run) && h.granted.At > h.latest(t, n) {
				found(fmt.Sprintf("granted %v after its node was gone", h.granted.At-n.gone()), h.granted, n.deleted)
			}
		}
	}),
	tests: perNode(func(t *timeline, n *node) bool {
		contender, known := t.sessions[n.created.Session]
		died, dead := t.crashed[contender]
		return n.hold == nil && known && n.deleted.Cause != "" && n.deleted.Cause != history.ByRequest && (!dead || died > n.deleted.At)
	}),
})

// latest returns the latest instant at which a contender may record a grant one of whose nodes is already gone. A node that an
// operator deletes can be gone while the answer that decides the grant is still under way, and a grant that was decided
// before a pause is recorded after it. The answer about a lease can be as old as the lease.
func (h *hold) latest(t *timeline, n *node) history.Instant {
	latest := n.gone()
	if until, paused := h.pausedAt(latest, t.run.Grace); paused {
		latest = until + t.run.Grace
	}
	if n.deleted.Cause == history.ByOperator {
		latest = max(latest, n.gone()+max(t.flight(), h.ttl()))
	}
	return latest
}
