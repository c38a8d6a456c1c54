// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/check"
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture/register"
	"github.com/lockkeeper/lockkeeper/torture/worker"
)

// Schema names the shape of a Result in JSON. It changes when a field changes its meaning.
const Schema = "lockkeeper-torture/1"

// A Result is what a run came to. In JSON it is the document that docs/evidence.md is made from.
type Result struct {
	Schema    string    `json:"schema"`
	Verdict   string    `json:"verdict"` // see HeldUp
	Contender string    `json:"contender"`
	Started   time.Time `json:"started"`
	On        string    `json:"on"`                  // servers, with their version
	ZooKeeper string    `json:"zookeeper,omitempty"` // their version, where they are ZooKeeper's
	Go        string    `json:"go"`
	Commit    string    `json:"commit"`           // of the library; with "+" if files were changed
	Judged    string    `json:"judged,omitempty"` // commit of the checker, where the history was judged again later
	Again     string    `json:"again"`            // command that runs it again
	Mutant    string    `json:"mutant,omitempty"` // patch by which the library was broken on purpose: it says nothing about the library

	Duration   history.Instant `json:"duration"` // with the time after the last fault
	Seed       uint64          `json:"seed"`
	Servers    int             `json:"servers"`
	Contenders int             `json:"contenders"`
	Clients    int             `json:"clients"`           // of each contender
	Waiters    int             `json:"waiters,omitempty"` // further contenders of each process, on each path
	Holds      int             `json:"holds,omitempty"`   // further uncontended locks of each process
	Timeout    history.Instant `json:"timeout"`           // T
	Tick       history.Instant `json:"tick"`

	// Promises are the rules that were asked, with how often each was tested. Documents of runs before this was recorded have
	// none.
	Promises []Promise `json:"promises,omitempty"`

	Faults  map[string]FaultCount `json:"faults"`
	Numbers check.Numbers         `json:"numbers"`
	Writes  register.Writes       `json:"writes"`

	Transactions int   `json:"transactions"`      // that the ensemble carried out
	Uncommitted  int   `json:"uncommitted"`       // that a server had logged, and no majority
	Expired      int   `json:"expired"`           // sessions that timed out
	Counter      int32 `json:"counter,omitempty"` // sequence number that is next where it was planted near 2147483647, its end
	Reaped       int   `json:"reaped"`            // parents that servers removed

	Token   string                     `json:"token"`             // what the library's fencing tokens are, "none" if it has none
	Tells   string                     `json:"tells,omitempty"`   // who tells a rival's holder that it is one no longer
	Limits  string                     `json:"limits,omitempty"`  // of what was tried with a rival: how its servers are set
	Without map[string]string          `json:"without,omitempty"` // faults that do not exist there, and why
	Had     map[string]history.Instant `json:"had,omitempty"`     // how long after all had stopped each path could be had by one more

	Hands []history.ID `json:"hands"`           // sessions that were the operator's, and did something; null where it was not recorded
	Ended []history.ID `json:"ended,omitempty"` // sessions of contenders that the operator ended

	Unchecked []Unchecked     `json:"unchecked,omitempty"`     // rules that were left out
	Found     history.Instant `json:"first_finding,omitempty"` // when the first of the findings had happened
	Findings  []Finding       `json:"findings"`                // what is wrong with the history
	Problems  []string        `json:"amiss"`                   // what else is
	Untried   []string        `json:"untried,omitempty"`       // what the run was to do, and never did

	// History is what happened. It is not in the document.
	History []history.Event `json:"-"`
}

// FaultCount says how often a fault was injected, and how often it could not be.
type FaultCount struct {
	Injected int `json:"injected"`
	Missed   int `json:"missed"`
}

// Unchecked is a rule that was left out.
type Unchecked struct {
	Rule check.Rule `json:"rule"`
	Why  string     `json:"why"`
}

// noToken is the Token of a library that gives out none.
const noToken = "none"

// A Finding is a rule that the history breaks.
type Finding struct {
	Rule check.Rule `json:"rule"`
	Text string     `json:"text"`
}

func newResult(opts *Options) *Result {
	r := &Result{
		Schema: Schema, Contender: opts.name(), Token: "czxid", Started: time.Now().UTC().Truncate(time.Second),
		Go: goVersion, Commit: commit(), Seed: opts.Seed, Servers: opts.Servers, Contenders: opts.Contenders,
		Mutant: mutantName(opts.Mutant), Clients: opts.Clients, Waiters: opts.Waiters, Holds: opts.Holds, Timeout: history.Instant(opts.Timeout), Tick: history.Instant(opts.tick()),
		Faults: map[string]FaultCount{}, Findings: []Finding{}, Problems: []string{}, Had: map[string]history.Instant{},
	}
	if rival := opts.Rival; rival != nil {
		r.Contender, r.Token, r.Without = rival.Name, cmp.Or(rival.Token, noToken), rival.Without
		r.Tells, r.Limits = rival.Tells, rival.Limits
	}
	return r
}

// mutantName is the name of a patch's file, without what all of them have.
func mutantName(patch string) string {
	if patch == "" {
		return ""
	}
	return strings.TrimSuffix(filepath.Base(patch), ".patch")
}

// name is that of the contenders.
func (o *Options) name() string {
	if o.Name != "" {
		return o.Name
	}
	return strings.Join(o.Contender, " ")
}

// commit is that of the library: from the build if it says, which `go run` does not, or from the checkout.
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value[:min(12, len(s.Value))]
			}
		}
	}
	out, err := exec.Command("git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// longest is how many grants a history may have for porcupine to judge it in the time that it has.
const longest = 400

// worth is how many findings of a rule are told in full.
const worth = 20

// judge says what the run came to.
func (r *run) judge() {
	result := r.result
	result.History = r.recorder.history()
	result.Writes = r.registers.Counts()
	result.Duration = history.Instant(time.Duration(result.History[len(result.History)-1].At).Truncate(time.Second))
	result.judge()
}

// Rejudge has the checker of this build judge the history of a run that was judged before. What else was amiss then stays.
func Rejudge(r *Result) {
	r.Judged = commit()
	r.Findings = []Finding{}
	r.Problems = slices.DeleteFunc(r.Problems, func(text string) bool { return strings.HasPrefix(text, judged) })
	r.judge()
}

// judged begins what is amiss in a history, and is no finding of the checker.
const judged = "judged: "

// judge asks the checker.
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
	r.Found = 0
	for _, f := range r.find(without) {
		total[f.Rule]++
		if at := happened(f); at > 0 && (r.Found == 0 || at < r.Found) {
			r.Found = at
		}
		if total[f.Rule] <= worth {
			r.Findings = append(r.Findings, Finding{f.Rule, f.String()})
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(total)) {
		if more := total[rule] - worth; more > 0 {
			problemf("%d more findings of %s", more, rule)
		}
	}
	if r.Own() {
		for _, text := range unexpected(r.History) {
			problemf("%s", text)
		}
	}
	if r.Writes.Let > 0 || r.Writes.Wronged > 0 {
		problemf("the fenced registers let %d stale writes in and refused %d others", r.Writes.Let, r.Writes.Wronged)
	}
	if r.Numbers.Unanswered > 0 {
		problemf("%d attempts were never answered", r.Numbers.Unanswered)
	}
	r.Untried = nil
	for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
		if n := r.Faults[kind]; n.Injected == 0 && n.Missed > 1 {
			r.Untried = append(r.Untried, fmt.Sprintf("%s was never done, at %d tries: nothing is shown about it", kind, n.Missed))
		}
	}
	if r.Numbers.Grants == 0 {
		r.Untried = append(r.Untried, "nothing was granted: nothing is shown")
	}
	r.Promises = r.promises(without, total)
	r.Verdict = r.verdict()
}

// happened is the instant by which all of a finding had happened.
func happened(f check.Finding) (at history.Instant) {
	for _, e := range f.Events {
		at = max(at, e.At)
	}
	return at
}

// Own says that it is about this library, and not about a rival.
func (r *Result) Own() bool { return r.Tells == "" && len(r.Without) == 0 }

// find asks all rules that say something about the run. Whether somebody believes on is asked in any case, so that everybody
// is measured alike; this library promises more.
func (r *Result) find(without []check.Rule) []check.Finding {
	return append(check.History(r.History, without...), check.Believed(r.History)...)
}

// unchecked are the rules that say nothing about this run.
func (r *Result) unchecked() []Unchecked {
	var left []Unchecked
	leave := func(why string, rules ...check.Rule) {
		for _, rule := range rules {
			left = append(left, Unchecked{rule, why})
		}
	}
	leave("contenders write to registers and not to the ensemble: the simulation and torture/suite check it", check.HeldState,
		check.EpochOrder, check.TrueAnswer)
	if r.Own() {
		if r.Numbers.Grants > longest {
			leave("the history is too long", check.Linearizable)
		}
		if !statesDeadlines(r.History) {
			leave("the contenders state no deadline at a grant", check.FreshGrant)
		}
		return left
	}
	leave("a promise of Lockkeeper's; alone is asked instead", check.FreshGrant, check.NotifiedFirst, check.NotifiedAtAll, check.LivingNode, check.OwnDelete,
		check.BareRegister)
	leave("there are no sessions and nodes whose order would be known", check.Linearizable)
	if r.ZooKeeper == "" {
		leave("there are no nodes", check.OwnNode, check.FirstInLine, check.NothingLeft)
	}
	if r.Token == noToken {
		leave("no tokens are given out", check.RisingTokens, check.FencedRegister)
	}
	return left
}

// unexpected are the errors of a history that no caller of this library should get.
func unexpected(events []history.Event) (texts []string) {
	how := map[int]string{}
	for _, e := range events {
		switch {
		case e.Kind == history.Asked:
			how[e.Attempt] = e.Text
		case e.Kind == history.Failed && !worker.MayFail(how[e.Attempt], e.Error):
			texts = append(texts, fmt.Sprintf("asking for %q failed: %v", how[e.Attempt], e))
		case e.Kind == history.Released && e.Error != "" && !worker.MayFailRelease(e.Error):
			texts = append(texts, fmt.Sprintf("giving back failed: %v", e))
		}
	}
	if more := len(texts) - worth; more > 0 {
		texts = append(texts[:worth], fmt.Sprintf("%d more errors that nobody should get", more))
	}
	return texts
}

// WriteJSON writes the document.
func (r *Result) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "\t")
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("result: %w", err)
	}
	return nil
}

// WriteSummary writes what a person wants to know.
func (r *Result) WriteSummary(w io.Writer) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-28s %s\n", name, fmt.Sprintf(format, args...))
	}
	n := &r.Numbers
	line("verdict", "%s", r.Verdict)
	for _, p := range r.Promises {
		line("  "+string(p.Rule), "%s, tested %d times (%s)", p.Verdict, p.Tested, p.By)
	}
	line("contender", "%s; tokens: %s", r.Contender, r.Token)
	if r.Mutant != "" {
		line("mutant", "%s: the library is broken on purpose", r.Mutant)
	}
	line("run", "%v on %d servers (%s), T %v, tick %v, seed %d, commit %s, %s", r.Duration, r.Servers, r.On,
		r.Timeout, r.Tick, r.Seed, r.Commit, r.Go)
	line("contenders", "%d processes with %d clients each; %d were killed, %d pauses", r.Contenders, r.Clients, n.Crashed, n.Pauses)
	if r.Waiters+r.Holds > 0 {
		line("load", "in each process %d further contenders on each path, and %d further locks held", r.Waiters, r.Holds)
	}
	line("partitioned holders", "%d lost the lock", n.Partitioned)
	line("stopped holders", "%d sent stale writes", r.StoppedWriters())
	line("grants", "%d of %d asked for; %d sessions expired, %d parents reaped", n.Grants, n.Asked, r.Expired, r.Reaped)
	line("ends", "%s", counts(n.Ends))
	line("overlaps, scheduled", "%d (worst %v)", n.Late, n.Latest)
	line("believed on, scheduled", "%d (worst %v)", n.Outlived, n.Longest)
	line("overlaps, not scheduled", "%d paused, for %v at least; %d deleted by hand", n.Unscheduled, short(n.ShortestPause), n.ByOperator)
	line("told before expiry", "%v at worst, of %d", n.ToldBeforeExpiry.Worst, n.ToldBeforeExpiry.Of)
	line("told before the next grant", "%v at worst, of %d", n.ToldBeforeGrant.Worst, n.ToldBeforeGrant.Of)
	stale := fmt.Sprintf("%d by %d late writers (%s) reached the registers: the bare ones accepted %d", r.Writes.Stale, r.Writes.Holders,
		counts(n.LateWriters), r.Writes.Accepted)
	if r.Token == noToken {
		line("stale writes", "%s, and nothing can refuse them", stale)
	} else {
		line("falling tokens", "%d", n.Falling)
		line("stale writes", "%s, the fenced ones refused %d and let %d in", stale, r.Writes.Refused, r.Writes.Let)
	}
	if r.ZooKeeper != "" {
		line("nodes left", "%d", n.Left)
	}
	line("unanswered", "%d; the longest wait was %v", n.Unanswered, short(n.LongestWait))
	for _, path := range slices.Sorted(maps.Keys(n.Unavailable)) {
		line("longest unavailable", "%s %v", path, short(n.Unavailable[path]))
	}
	line("failures", "%s", counts(n.Failures))
	if r.ZooKeeper != "" {
		line("ordered", "%d transactions, %d that never came to be", r.Transactions, r.Uncommitted)
		if r.Counter != 0 {
			line("counter", "%d, of %d", r.Counter, counterEnd)
		}
	}
	injected, missed := map[string]int{}, map[string]int{}
	for name, count := range r.Faults {
		injected[name] = count.Injected
		if count.Missed > 0 {
			missed[name] = count.Missed
		}
	}
	line("faults", "%s", counts(injected))
	line("faults not done", "%s", cmp.Or(counts(missed), "none"))
	for _, path := range slices.Sorted(maps.Keys(r.Had)) {
		line("had in the end", "%s after %v", path, short(r.Had[path]))
	}
	for _, u := range r.Unchecked {
		line("not checked", "%s: %s", u.Rule, u.Why)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Without)) {
		line("no such fault", "%s: %s", name, r.Without[name])
	}
	if r.Found > 0 {
		line("first finding", "after %v", short(r.Found))
	}
	for _, text := range r.Untried {
		line("not shown", "%s", text)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "\nFINDING %s\n", f.Text)
	}
	for _, text := range r.Problems {
		fmt.Fprintf(&b, "\nAMISS %s\n", text)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("summary: %w", err)
	}
	return nil
}

func counts[K cmp.Ordered](of map[K]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("%v %d", k, of[k]))
	}
	return strings.Join(parts, ", ")
}

func short(i history.Instant) time.Duration { return time.Duration(i).Round(time.Millisecond) }
