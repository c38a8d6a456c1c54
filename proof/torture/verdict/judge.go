// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/attempt"
)

// maxReported is how many findings of a rule are reported in full.
const maxReported = 20

// Rejudge checks the history of a finished run again, with the checker of this build. It keeps the problems that the run
// itself recorded.
func Rejudge(r *Result) {
	r.Judged = Commit()
	r.Findings = []Finding{}
	r.Problems = slices.DeleteFunc(r.Problems, func(text string) bool { return strings.HasPrefix(text, judged) })
	r.Judge()
}

// judged is the prefix of problems that Rejudge finds again: they are in the history, but are not findings of the checker.
const judged = "judged: "

// Unreported returns the problem that Judge records for the findings of a rule that it does not report in full.
func Unreported(findings int, rule check.Rule) string {
	return fmt.Sprintf("%s%d more findings of %s", judged, findings, rule)
}

// Judge checks the history and sets the findings, the promises and the verdict.
func (r *Result) Judge() {
	problemf := func(format string, args ...any) { r.Problems = append(r.Problems, judged+fmt.Sprintf(format, args...)) }
	r.Unchecked = r.unchecked()
	var without []check.Rule
	for _, u := range r.Unchecked {
		without = append(without, u.Rule)
	}
	r.Numbers = check.Measure(r.History, without...)
	collapseHolds(r.Numbers.Unavailable)
	collapseHolds(r.Numbers.Unexcused)
	total := map[check.Rule]int{}
	r.FirstFinding = 0
	for _, f := range r.find(without) {
		total[f.Rule]++
		if at := happened(f); at > 0 && (r.FirstFinding == 0 || at < r.FirstFinding) {
			r.FirstFinding = at
		}
		if total[f.Rule] <= maxReported {
			r.Findings = append(r.Findings, Finding{f.Rule, f.String()})
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(total)) {
		if more := total[rule] - maxReported; more > 0 {
			r.Problems = append(r.Problems, Unreported(more, rule))
		}
	}
	if r.Own() {
		texts := attempt.Unexpected(r.History)
		for _, text := range texts[:min(len(texts), maxReported)] {
			problemf("%s", text)
		}
		if more := len(texts) - maxReported; more > 0 {
			problemf("%d more unexpected errors", more)
		}
	}
	if r.Writes.AcceptedByFenced > 0 || r.Writes.WronglyRejected > 0 {
		problemf("the fenced registers accepted %d stale writes and rejected %d others", r.Writes.AcceptedByFenced, r.Writes.WronglyRejected)
	}
	if r.Numbers.Unanswered > 0 {
		problemf("%d attempts were never answered", r.Numbers.Unanswered)
	}
	r.Untried = nil
	for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
		if n := r.Faults[kind]; n.Injected == 0 && n.Missed > 0 {
			r.Untried = append(r.Untried, fmt.Sprintf("fault %s: never injected in %d attempts: nothing is shown about it", kind, n.Missed))
		}
	}
	if r.Faults["counter"].Injected > 0 && r.Counter < math.MaxInt32 {
		r.Untried = append(r.Untried, fmt.Sprintf("fault counter: the next number is %d: nothing is shown about its end", r.Counter))
	}
	counts := exercised(r.History)
	for _, name := range slices.Sorted(maps.Keys(r.Recipes)) {
		if r.Recipes[name] = counts[name]; counts[name] == 0 {
			r.Untried = append(r.Untried, fmt.Sprintf("recipe %s: never granted or run: nothing is shown about it", name))
		}
	}
	if r.Numbers.Grants == 0 {
		r.Untried = append(r.Untried, "nothing was granted: nothing is shown")
	}
	r.Promises = r.promises(without, total)
	r.Verdict = r.verdict()
}

// happened returns the instant at which a finding was complete.
func happened(f check.Finding) (at history.Instant) {
	for _, e := range f.Events {
		at = max(at, e.At)
	}
	return at
}

// Holds is the parent of the uncontended locks that each process holds in addition to the contended ones.
const Holds = "/torture/holds"

// collapseHolds replaces the values of the hundreds of uncontended paths by the worst of them.
func collapseHolds(longest map[string]history.Instant) {
	for path, d := range longest {
		if strings.HasPrefix(path, Holds+"/") {
			delete(longest, path)
			longest[Holds] = max(longest[Holds], d)
		}
	}
}

// Own reports whether the result is about this library, not about a rival.
func (r *Result) Own() bool { return r.NotifiedBy == "" && len(r.Without) == 0 }

// find returns the violations of all rules that apply to the run. It checks check.SoleHolder for every library, so that all
// are measured by the same rule; Lockkeeper promises more.
func (r *Result) find(without []check.Rule) []check.Finding {
	findings := check.History(r.History, without...)
	if len(findings) > 0 && findings[0].Rule == check.WellFormed { // all that StaleBeliefs would find too
		return findings
	}
	return append(findings, check.StaleBeliefs(r.History)...)
}
