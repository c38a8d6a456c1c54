// SPDX-License-Identifier: Apache-2.0

// Package check decides whether a history keeps the promises of locks and elections.
//
// Each promise is a [Rule]. Exclusion, rising tokens and the fenced register are checked twice: by plain rules, whose
// findings name the lines that break them, and by porcupine, against a model of a lock with a register behind it that has
// no nodes, zxids or sessions.
//
// Package recipes does not promise everything in every situation. The excuses are decided in one place, hold.excuse.
package check

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// History returns the violations of all rules except those in without, and none if the history keeps them. Leave out
// Linearizable for a history that is too long to search. History does not change events.
func History(events []history.Event, without ...Rule) []Finding {
	t, findings := newTimeline(events)
	if len(findings) > 0 {
		return findings
	}
	for _, rule := range []func(*timeline) []Finding{
		grants, permits, together, grantDeadlines, keptLeases, leaseRecords, notifications, releases, tokens, registers, transactions, memberships, listings,
		ticks, takeovers, leaders, openBarriers, entries, exits,
		deletions, leftovers,
	} {
		findings = append(findings, rule(t)...)
	}
	if !slices.Contains(without, Linearizable) {
		findings = append(findings, linearizable(t)...)
	}
	return slices.DeleteFunc(findings, func(f Finding) bool { return slices.Contains(without, f.Rule) })
}
