// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// fresh checks that each grant rests on recent proof that its session lives. A grant without such proof ends at a deadline
// that is near or already past: the waiter decided on what a server showed, and no quorum had confirmed its session.
func fresh(s *story) []Finding {
	var findings []Finding
	for _, h := range s.holds {
		g := h.granted
		left := g.Deadline - g.At
		if g.Deadline == 0 || left >= s.run.Timeout/8 || h.unscheduled(s, g.At) {
			continue
		}
		findings = append(findings, Finding{
			FreshGrant, fmt.Sprintf("granted %v before the claim's deadline: at least %v is required", left, s.run.Timeout/8),
			[]history.Event{h.asked, g},
		})
	}
	return findings
}
