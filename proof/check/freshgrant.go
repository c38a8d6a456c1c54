// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
)

// FreshGrant: at the instant of a grant, the claim's deadline is at least T/8 away. The client grants with at least T/4
// left; the difference covers the time until the caller runs. Without a recent proof of liveness of its session, a waiter
// decided on one server's answer, and no quorum had confirmed the session. Grants that state no deadline are not checked.
// Excused: contenders that were paused. The deadline of a lease follows from its TTL and proves no session: see KeptLease.
var FreshGrant = register(definition{
	name:    "fresh-grant",
	meaning: "at a grant, the session was proved to live recently",
	counts:  "grants to contenders that were partitioned or paused while they waited",
	judge: eachHold(func(t *timeline, h *hold, found report) {
		if left := h.granted.Deadline - h.granted.At; h.provesSession() && left < t.run.Timeout/8 && !h.unscheduled(t, h.granted.At) {
			found(fmt.Sprintf("granted %v before the claim's deadline: at least %v is required", left, t.run.Timeout/8), h.asked, h.granted)
		}
	}),
	tests: perHold(func(_ *timeline, h *hold) bool {
		disturbed := func(p interval) bool { return p.from < h.granted.At && p.to > h.asked.At }
		return h.provesSession() && (slices.ContainsFunc(h.partitions, disturbed) || slices.ContainsFunc(h.pauses, disturbed))
	}),
})

// provesSession reports whether the grant states a deadline that follows from a proof of liveness of a session.
func (h *hold) provesSession() bool { return h.granted.Deadline != 0 && !h.isLease() }
