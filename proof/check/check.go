// SPDX-License-Identifier: Apache-2.0

// Package check decides whether a history keeps the promises of locks and elections.
//
// Each promise is a [Rule], which has a file. Exclusion, rising tokens and the fenced register are checked twice: by plain
// rules, whose findings name the lines that break them, and by porcupine, against a model of a lock with a register behind it
// that has no nodes, zxids or sessions.
//
// Package recipes does not promise everything in every situation. The excuses are decided in one place, hold.excuse.
package check

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// History returns the violations of all rules except those in without, and none if the history keeps them. It does not change
// events.
func History(events []history.Event, without ...Rule) []Finding {
	t, findings := newTimeline(events)
	if len(findings) > 0 {
		return findings
	}
	for _, rule := range Rules() {
		if !slices.Contains(without, rule) {
			findings = append(findings, t.findings(rule)...)
		}
	}
	return findings
}

// findings returns the violations of a rule.
func (t *timeline) findings(rule Rule) (findings []Finding) {
	rules[rule].judge(t, func(text string, events ...history.Event) {
		f := Finding{Rule: rule, Text: text}
		for _, e := range events {
			if e.Kind != "" {
				f.Events = append(f.Events, e)
			}
		}
		findings = append(findings, f)
	})
	return findings
}

// Tested counts how often a history tests each rule: see Rule.Counts. A history without findings is no evidence for a rule
// that it never tests.
func Tested(events []history.Event) map[Rule]int {
	tests := make(map[Rule]int, len(rules))
	t, _ := newTimeline(events)
	for name, rule := range rules {
		tests[name] = 0
		if t != nil {
			tests[name] = rule.tests(t)
		}
	}
	return tests
}
