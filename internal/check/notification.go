// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// notifications checks when holders were notified.
func notifications(t *timeline) []Finding {
	var findings []Finding
	for _, h := range t.holds {
		if f, broken := h.checkNotifiedFirst(t.grace()); broken {
			findings = append(findings, f)
		}
		if f, broken := h.checkNotifiedAtAll(t); broken {
			findings = append(findings, f)
		}
	}
	return findings
}

// grace returns how long a contender that wakes, or whose own clock notifies it, may take to notice: the recipes check the
// clock every T/24.
func (t *timeline) grace() history.Instant { return t.run.Timeout/24 + t.run.Grace }

// believedUntil returns the instant until which the holder believed that it held the lock: that of its notification, of its
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
	if h.endedByHolder() {
		return min(h.notified.At, h.releasing.At)
	}
	return h.notified.At
}

// endedByHolder reports whether the holder ended the grant itself.
func (h *hold) endedByHolder() bool {
	return h.releasing.Kind != "" && (h.notified.Cause == history.GivenUp || h.notified.Cause == history.ClientShut)
}

// limit returns the instant by which the holder must have been notified: before its node is gone, by the margin if its
// session times out or its lease expires, and before the next grant of the path.
func (h *hold) limit() history.Instant {
	limit := never
	if h.node != nil {
		limit = h.node.goneAtLatest(h.run)
		if h.node.deleted.Cause == history.ByTimeout {
			limit -= h.margin
		}
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

// checkNotifiedFirst checks NotifiedFirst, within grace where a pause excuses the holder.
func (h *hold) checkNotifiedFirst(grace history.Instant) (Finding, bool) {
	limit := h.limit()
	why, until := h.excuse()
	if h.believedUntil() <= limit || why == excusedDeletion {
		return Finding{}, false
	}
	events := []history.Event{h.granted}
	if h.notified.Kind != "" {
		events = append(events, h.notified)
	}
	if h.node != nil && h.node.deleted.Kind != "" {
		events = append(events, h.node.deleted)
	}
	if h.next.Kind != "" {
		events = append(events, h.next)
	}
	if why != excusedPause {
		text := fmt.Sprintf("believed until %v that it held the lock; the limit was %v", h.believedUntil(), limit)
		return Finding{NotifiedFirst, text, events}, h.notified.Kind != "" || h.crashed
	}
	if latest := max(h.granted.At, until) + grace; until != never && h.believedUntil() > latest {
		return Finding{NotifiedFirst, fmt.Sprintf("not notified by %v; the pause excuses it until %v", latest, until), events}, true
	}
	return Finding{}, false
}

// checkNotifiedAtAll checks NotifiedAtAll, which also applies to holders whose node an operator deleted. No session notifies
// the holder of a lease: it stops when the lease is no longer valid.
func (h *hold) checkNotifiedAtAll(t *timeline) (Finding, bool) {
	if h.node == nil {
		return Finding{}, false
	}
	if h.node.deleted.Kind == "" {
		return Finding{NotifiedAtAll, "neither notified nor its node deleted at the end", []history.Event{h.granted}},
			h.notified.Kind == "" && !h.crashed && t.end.Kind != ""
	}
	limit := h.latestNotification(t, h.node.gone())
	return Finding{
		NotifiedAtAll, fmt.Sprintf("not notified by %v that its node is gone", limit),
		[]history.Event{h.granted, h.node.deleted},
	}, h.believedUntil() > limit && t.endedAt() > limit
}

// latestNotification returns the instant by which the holder must be notified of what happened at an instant.
func (h *hold) latestNotification(t *timeline, at history.Instant) history.Instant {
	latest := max(h.granted.At, at) + max(t.run.Timeout*3/4, h.ttl()+h.slack(h.ttl())) + t.grace()
	if until, paused := h.pausedAt(min(h.believedUntil(), latest), t.grace()); paused && until != never {
		latest = max(latest, until+t.grace())
	}
	return latest
}

// endedAt returns the instant of the history's End, 0 if it has none.
func (t *timeline) endedAt() history.Instant {
	if t.end.Kind == "" {
		return 0
	}
	return t.end.At
}
