// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"github.com/lockkeeper/lockkeeper/proof/check"
)

// Verdicts on a run and on each promise.
const (
	Valid   = "valid"   // tested, without a finding
	Broken  = "broken"  // with a finding
	Unknown = "unknown" // never tested, or not judged

	// Unsound is the verdict on a run without a finding whose servers or harness failed: it says nothing about the library.
	Unsound = "unsound"
)

// A Promise is a rule of the checker, with how often the run tested it.
type Promise struct {
	Rule    check.Rule `json:"rule"`
	Tested  int        `json:"tested"`
	By      string     `json:"by"` // what Tested counts
	Verdict string     `json:"verdict"`
}

// promises returns a verdict on each rule that was checked. A history that is not well-formed is not judged: it shows nothing.
func (r *Result) promises(without []check.Rule, found map[check.Rule]int) []Promise {
	skipped := map[check.Rule]bool{}
	for _, rule := range without {
		skipped[rule] = true
	}
	rules := check.Rules()
	if !r.Own() {
		rules = append([]check.Rule{check.SoleHolder}, rules...)
	}
	tested := check.Tested(r.History)
	promises := []Promise{}
	for _, rule := range rules {
		if skipped[rule] {
			continue
		}
		p := Promise{Rule: rule, Tested: tested[rule], By: rule.Counts(), Verdict: Valid}
		switch {
		case found[rule] > 0:
			p.Verdict = Broken
		case p.Tested == 0, found[check.WellFormed] > 0:
			p.Verdict = Unknown
		}
		promises = append(promises, p)
	}
	return promises
}

// verdict returns the verdict on the whole run: it is valid if each checked promise is. What was found stands although the
// harness failed, and what was not found does not.
func (r *Result) verdict() string {
	if len(r.Findings)+len(r.Problems) > 0 {
		return Broken
	}
	if len(r.Failures) > 0 {
		return Unsound
	}
	for _, p := range r.Promises {
		if p.Verdict != Valid {
			return p.Verdict
		}
	}
	if len(r.Untried) > 0 {
		return Unknown
	}
	return Valid
}
