// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// NotifiedAtAll: a holder whose node is gone, for whatever reason, an operator's deletion included, is notified within 3T/4, the
// longest that a proof of liveness lasts, or within the TTL of its lease if that is longer: no session notifies the holder of a
// lease, which stops when the lease is no longer valid. Each of the two nodes of a slot counts.
var NotifiedAtAll = register(definition{
	name:    "notified-at-all",
	meaning: "a holder whose node is gone is notified within 3T/4",
	counts:  "holders whose node was deleted by an operator or by the session timeout",
	judge: eachHold(func(t *timeline, h *hold, found report) {
		for _, n := range h.nodes() {
			if n.deleted.Kind == "" {
				if h.notified.Kind == "" && !h.crashed && t.end.Kind != "" {
					found("neither notified nor its node deleted at the end", h.granted)
				}
			} else if limit := h.latestNotification(t, n.gone()); h.believedUntil() > limit && t.end.At > limit {
				found(fmt.Sprintf("not notified by %v that its node is gone", limit), h.granted, n.deleted)
			}
		}
	}),
	tests: perHold(func(_ *timeline, h *hold) bool {
		return h.lostNode(history.ByTimeout) || h.lostAny(history.ByOperator)
	}),
})

// latestNotification returns the instant by which the holder must be notified of what happened at an instant.
func (h *hold) latestNotification(t *timeline, at history.Instant) history.Instant {
	return h.noticedBy(t, at, max(t.run.Timeout*3/4, h.ttl()+h.slack(h.ttl())))
}

// noticedBy returns the instant by which the holder must have noticed what happened at an instant, and could be known within a time.
func (h *hold) noticedBy(t *timeline, at, within history.Instant) history.Instant {
	latest := max(h.granted.At, at) + within + t.grace()
	if until, paused := h.pausedAt(min(h.believedUntil(), latest), t.grace()); paused && until != never {
		latest = max(latest, h.scheduledFor(until, t.grace()))
	}
	return latest
}
