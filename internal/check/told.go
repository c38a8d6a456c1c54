// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// told checks when holders were told.
func told(s *story) []Finding {
	var findings []Finding
	for _, h := range s.holds {
		if f, broken := h.toldFirst(s.grace()); broken {
			findings = append(findings, f)
		}
		if f, broken := h.toldAtAll(s); broken {
			findings = append(findings, f)
		}
	}
	return findings
}

// grace is how long a contender that wakes up, or is told by its own clock, may take to find out: the recipes look at the
// clock every T/24.
func (s *story) grace() history.Instant { return s.run.Timeout/24 + s.run.Grace }

// when is the instant at which the holder was told. One that gives up needs nobody to tell it, and one that is dead believes
// nothing any more.
func (h *hold) when() history.Instant {
	if h.dead && h.releasing.Kind != "" {
		return min(h.died, h.releasing.At)
	}
	if h.dead {
		return h.died
	}
	if h.told.Kind == "" {
		return never
	}
	if h.gaveUp() {
		return min(h.told.At, h.releasing.At)
	}
	return h.told.At
}

// gaveUp says that the holder ended the grant itself.
func (h *hold) gaveUp() bool {
	return h.releasing.Kind != "" && (h.told.Cause == history.GivenUp || h.told.Cause == history.ClientShut)
}

func (h *hold) toldFirst(grace history.Instant) (Finding, bool) {
	limit := h.limit()
	why, until := h.excuse()
	if h.when() <= limit || why == "by hand" {
		return Finding{}, false
	}
	events := []history.Event{h.granted}
	if h.told.Kind != "" {
		events = append(events, h.told)
	}
	if h.node != nil && h.node.deleted.Kind != "" {
		events = append(events, h.node.deleted)
	}
	if h.next.Kind != "" {
		events = append(events, h.next)
	}
	if why != "paused" {
		return Finding{ToldFirst, fmt.Sprintf("told at %v, where %v was the limit", h.when(), limit), events}, h.told.Kind != "" || h.dead
	}
	if late := max(h.granted.At, until) + grace; until != never && h.when() > late {
		return Finding{ToldFirst, fmt.Sprintf("not told by %v, after the pause that excuses it until %v", late, until), events}, true
	}
	return Finding{}, false
}

// toldAtAll is about all, those whose node was deleted by hand as well.
func (h *hold) toldAtAll(s *story) (Finding, bool) {
	if h.node == nil {
		return Finding{}, false
	}
	if h.node.deleted.Kind == "" {
		return Finding{ToldAtAll, "neither told nor its node gone at the end", []history.Event{h.granted}},
			h.told.Kind == "" && !h.dead && s.end.Kind != ""
	}
	since := max(h.granted.At, h.node.gone())
	limit := since + s.run.Timeout*3/4 + s.grace()
	if until, paused := h.pausedAt(min(h.when(), limit), 0); paused && until != never {
		limit = max(limit, until+s.grace())
	}
	return Finding{
		ToldAtAll, fmt.Sprintf("not told by %v that its node is gone", limit),
		[]history.Event{h.granted, h.node.deleted},
	}, h.when() > limit && s.last() > limit
}

// last is until when the history was told.
func (s *story) last() history.Instant {
	if s.end.Kind == "" {
		return 0
	}
	return s.end.At
}
