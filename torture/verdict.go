// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/check"
	"github.com/lockkeeper/lockkeeper/internal/history"
)

// promises returns a verdict on each rule that was checked.
func (r *Result) promises(without []check.Rule, found map[check.Rule]int) []Promise {
	skipped := map[check.Rule]bool{}
	for _, rule := range without {
		skipped[rule] = true
	}
	rules := check.Rules
	if !r.Own() {
		rules = append([]check.Rule{check.SoleHolder}, rules...)
	}
	tested := check.Tested(r.History)
	promises := []Promise{}
	for _, rule := range rules {
		if skipped[rule] {
			continue
		}
		p := Promise{Rule: rule, Tested: tested[rule], By: check.By[rule], Verdict: HeldUp}
		switch {
		case found[rule] > 0:
			p.Verdict = Broken
		case p.Tested == 0:
			p.Verdict = NotShown
		}
		promises = append(promises, p)
	}
	return promises
}

// verdict returns the verdict on the whole run: it held up if every checked promise did. What was found stands although the
// harness failed, and what was not found does not.
func (r *Result) verdict() string {
	if len(r.Findings)+len(r.Problems) > 0 {
		return Broken
	}
	if len(r.Failures) > 0 {
		return Unsound
	}
	for _, p := range r.Promises {
		if p.Verdict != HeldUp {
			return p.Verdict
		}
	}
	if len(r.Untried) > 0 {
		return NotShown
	}
	return HeldUp
}

// listsMembers reports whether the contenders list the members of a group.
func listsMembers(events []history.Event) bool {
	return slices.ContainsFunc(events, func(e history.Event) bool { return e.Kind == history.Listed })
}

// statesDeadlines reports whether the contenders state the deadline of their grants.
func statesDeadlines(events []history.Event) bool {
	for _, e := range events {
		if e.Kind == history.Granted && e.Deadline != 0 {
			return true
		}
	}
	return false
}
