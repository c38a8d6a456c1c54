// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/check"
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture/worker"
)

// maxForPorcupine is the greatest number of grants that porcupine checks in time.
const maxForPorcupine = 400

// maxReported is how many findings of a rule are reported in full.
const maxReported = 20

// judge completes the result with the history, the counts and the verdict.
func (r *run) judge() {
	result := r.result
	result.History = r.recorder.history()
	result.Writes = r.registers.Counts()
	result.Duration = history.Instant(time.Duration(result.History[len(result.History)-1].At).Truncate(time.Second))
	result.judge()
}

// Rejudge checks the history of a finished run again, with the checker of this build. It keeps the problems that the run
// itself recorded.
func Rejudge(r *Result) {
	r.Judged = commit()
	r.Findings = []Finding{}
	r.Problems = slices.DeleteFunc(r.Problems, func(text string) bool { return strings.HasPrefix(text, judged) })
	r.judge()
}

// judged is the prefix of problems that Rejudge finds again: they are in the history, but are not findings of the checker.
const judged = "judged: "

// judge checks the history and sets the findings, the promises and the verdict.
func (r *Result) judge() {
	problemf := func(format string, args ...any) { r.Problems = append(r.Problems, judged+fmt.Sprintf(format, args...)) }
	r.Numbers = check.Measure(r.History)
	collapseHolds(r.Numbers.Unavailable)
	r.Unchecked = r.unchecked()
	var without []check.Rule
	for _, u := range r.Unchecked {
		without = append(without, u.Rule)
	}
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
			problemf("%d more findings of %s", more, rule)
		}
	}
	if r.Own() {
		for _, text := range unexpected(r.History) {
			problemf("%s", text)
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
		if n := r.Faults[kind]; n.Injected == 0 && n.Missed > 1 {
			r.Untried = append(r.Untried, fmt.Sprintf("fault %s: never injected in %d attempts: nothing is shown about it", kind, n.Missed))
		}
	}
	r.countRecipes()
	r.Untried = append(r.Untried, r.unexercised()...)
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

// Own reports whether the result is about this library, not about a rival.
func (r *Result) Own() bool { return r.NotifiedBy == "" && len(r.Without) == 0 }

// find returns the violations of all rules that apply to the run. It checks check.SoleHolder for every library, so that all
// are measured by the same rule; Lockkeeper promises more.
func (r *Result) find(without []check.Rule) []check.Finding {
	return append(check.History(r.History, without...), check.StaleBeliefs(r.History)...)
}

// unchecked returns the rules that do not apply to this run, with the reasons.
func (r *Result) unchecked() []Unchecked {
	var unchecked []Unchecked
	skip := func(why string, rules ...check.Rule) {
		for _, rule := range rules {
			unchecked = append(unchecked, Unchecked{rule, why})
		}
	}
	skip("contenders claim no epoch, and do not record the answers of the ensemble: the simulation and torture/suite check it",
		check.EpochOrder, check.TrueAnswer)
	if r.Replicas == 0 {
		skip("there is no lock service", check.KeptLease, check.LeaseRecord)
	}
	skip("a server that is isolated from its leader keeps members registered for a while: the simulation checks it", check.TrueMembership)
	if !r.has(worker.Group) && !listsMembers(r.History) {
		skip("the contenders list no members", check.TrueListing)
	}
	if !r.has(worker.Schedule) {
		skip("the contenders run no schedule: the simulation checks it", check.TickOnce)
	}
	if !r.has(worker.Permits) {
		skip("the contenders use no semaphore: the simulation checks it", check.PermitsWithinLimit)
	}
	if !r.has(worker.Several) {
		skip("the contenders request no several locks together: the simulation checks it", check.AllOrNothing)
	}
	if !r.has(worker.Takeover) {
		skip("the contenders have no lock-delay: the simulation checks it", check.CrashOrClean)
	}
	if !r.has(worker.Publish) {
		skip("the leaders publish no value: the simulation checks it", check.HeldState)
	}
	if !r.has(worker.Observer) {
		skip("the contenders observe no leader: the simulation checks it", check.TrueLeader)
	}
	if !r.has(worker.Barrier) {
		skip("the contenders use no barrier: the simulation checks it", check.OpenBarrier)
	}
	if !r.has(worker.Double) {
		skip("the contenders use no double barrier: the simulation checks it", check.FullRound, check.WholeRound)
	}
	if r.Own() {
		if r.Numbers.Grants > maxForPorcupine {
			skip("the history is too long", check.Linearizable)
		}
		if !statesDeadlines(r.History) {
			skip("the contenders state no deadline at a grant", check.FreshGrant)
		}
		return unchecked
	}
	skip("a promise of Lockkeeper's; alone is checked instead", check.FreshGrant, check.NotifiedFirst, check.NotifiedAtAll, check.LivingNode, check.OwnDelete,
		check.BareRegister, check.TrueRelease)
	skip("there are no sessions and nodes whose order is known", check.Linearizable)
	if r.ZooKeeper == "" {
		skip("there are no nodes", check.OwnNode, check.FirstInQueue, check.NothingLeft)
	}
	if r.Token == noToken {
		skip("the library has no tokens", check.RisingTokens, check.FencedRegister)
	}
	return unchecked
}

// unexpected returns the errors in a history that no caller of this library should get.
func unexpected(events []history.Event) (texts []string) {
	how := map[int]string{}
	for _, e := range events {
		switch {
		case e.Kind == history.Asked:
			how[e.Attempt] = e.Text
		case e.Kind == history.Failed && !worker.MayFail(how[e.Attempt], e.Error):
			texts = append(texts, fmt.Sprintf("%s: unexpected error: %v", how[e.Attempt], e))
		case e.Kind == history.Released && e.Error != "" && !worker.MayFailRelease(e.Error):
			texts = append(texts, fmt.Sprintf("release: unexpected error: %v", e))
		}
	}
	if more := len(texts) - maxReported; more > 0 {
		texts = append(texts[:maxReported], fmt.Sprintf("%d more unexpected errors", more))
	}
	return texts
}
