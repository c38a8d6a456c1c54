// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// Alone: nobody believes to hold what another has been granted since. It asks less than ToldFirst, and nothing of nodes or
// of the order of an ensemble: it is for histories of locks that make no further promise. Excused: nodes deleted by hand,
// the holder's or the other's; contenders that are not scheduled, until they have been so for T/24.
const Alone Rule = "alone"

// Believed returns where a history breaks Alone.
func Believed(events []history.Event) []Finding {
	s, findings := newStory(events)
	if len(findings) > 0 {
		return findings
	}
	for _, h := range s.holds {
		next, _ := s.following(h)
		if from, to := s.outlived(h, next); to > from {
			found := []history.Event{h.granted, next}
			for _, e := range []history.Event{h.told, h.releasing} {
				if e.Kind != "" {
					found = append(found, e)
				}
			}
			findings = append(findings, Finding{Alone, fmt.Sprintf("believed to hold what another was granted, for %v from %v", to-from, from), found})
		}
	}
	return findings
}

// outlived is from when until when a holder that was scheduled believed to hold what another had been granted. It begins
// late for one that was not scheduled then, and ends when it is not any more. None: to is not greater than from.
func (s *story) outlived(h *hold, next history.Event) (from, to history.Instant) {
	if next.Kind == "" || h.node != nil && h.node.deleted.Cause == history.ByHand {
		return 0, 0
	}
	from, to = next.At, min(h.when(), s.until())
	for {
		until, paused := h.pausedAt(from, s.grace())
		if !paused {
			for _, p := range h.pauses {
				if p.from > from {
					return from, min(to, p.from)
				}
			}
			return from, to
		}
		if until == never {
			return 0, 0
		}
		from = until + s.grace() + 1
	}
}
