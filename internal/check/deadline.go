// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// grantDeadlines checks that each grant follows a recent proof of liveness of its session. Without one, the grant's deadline
// is near or already past: the waiter decided on one server's answer, and no quorum had confirmed its session.
func grantDeadlines(t *timeline) []Finding {
	var findings []Finding
	for _, h := range t.holds {
		g := h.granted
		left := g.Deadline - g.At
		if g.Deadline == 0 || h.isLease() || left >= t.run.Timeout/8 || h.unscheduled(t, g.At) {
			continue
		}
		findings = append(findings, Finding{
			FreshGrant, fmt.Sprintf("granted %v before the claim's deadline: at least %v is required", left, t.run.Timeout/8),
			[]history.Event{h.asked, g},
		})
	}
	return findings
}
