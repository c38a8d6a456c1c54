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
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/simulation/check"
	"github.com/lockkeeper/lockkeeper/internal/simulation/history"
)

// Schema names the shape of a Result in JSON. It changes when a field changes its meaning.
const Schema = "lockkeeper-torture/1"

// A Result is what a run came to. In JSON it is the document that docs/evidence.md is made from.
type Result struct {
	Schema    string    `json:"schema"`
	Verdict   string    `json:"verdict"` // "held up" or "broken"
	Contender string    `json:"contender"`
	Started   time.Time `json:"started"`
	On        string    `json:"on"`                  // servers, with their version
	ZooKeeper string    `json:"zookeeper,omitempty"` // their version, where they are ZooKeeper's
	Go        string    `json:"go"`
	Commit    string    `json:"commit"` // of the library; with "+" if files were changed
	Again     string    `json:"again"`  // command that runs it again

	Duration   history.Instant `json:"duration"` // with the time after the last fault
	Seed       uint64          `json:"seed"`
	Servers    int             `json:"servers"`
	Contenders int             `json:"contenders"`
	Clients    int             `json:"clients"` // of each contender
	Timeout    history.Instant `json:"timeout"` // T
	Tick       history.Instant `json:"tick"`

	Faults  map[string]FaultCount `json:"faults"`
	Numbers check.Numbers         `json:"numbers"`
	Writes  Writes                `json:"writes"`

	Transactions int `json:"transactions"` // that the ensemble carried out
	Uncommitted  int `json:"uncommitted"`  // that a server had logged, and no majority
	Expired      int `json:"expired"`      // sessions that timed out
	Reaped       int `json:"reaped"`       // parents that servers removed

	Token   string                     `json:"token"`             // what the library's fencing tokens are, "none" if it has none
	Without map[string]string          `json:"without,omitempty"` // faults that do not exist there, and why
	Had     map[string]history.Instant `json:"had,omitempty"`     // how long after all had stopped each path could be had by one more

	Unchecked []Unchecked `json:"unchecked,omitempty"` // rules that were left out
	Findings  []Finding   `json:"findings"`            // what is wrong with the history
	Amiss     []string    `json:"amiss"`               // what else is

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
		Clients: opts.Clients, Timeout: history.Instant(opts.Timeout), Tick: history.Instant(opts.tick()),
		Faults: map[string]FaultCount{}, Findings: []Finding{}, Amiss: []string{},
	}
	if rival := opts.Rival; rival != nil {
		r.Contender, r.Token, r.Without, r.Had = rival.Name, cmp.Or(rival.Token, noToken), rival.Without, map[string]history.Instant{}
	}
	return r
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

// judge asks the checker.
func (s *stage) judge() {
	r := s.result
	r.History = s.journal.told()
	r.Writes = s.registers.counts()
	r.Duration = history.Instant(time.Duration(r.History[len(r.History)-1].At).Truncate(time.Second))
	r.Numbers = check.Measure(r.History)
	r.Unchecked = s.unchecked()
	var without []check.Rule
	for _, u := range r.Unchecked {
		without = append(without, u.Rule)
	}
	told := map[check.Rule]int{}
	for _, f := range s.findings(without) {
		told[f.Rule]++
		if told[f.Rule] <= worth {
			r.Findings = append(r.Findings, Finding{f.Rule, f.String()})
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(told)) {
		if more := told[rule] - worth; more > 0 {
			s.amiss("%d more findings of %s", more, rule)
		}
	}
	if s.opts.Rival == nil {
		s.unexpected()
	}
	if r.Writes.Let > 0 || r.Writes.Wronged > 0 {
		s.amiss("the fenced registers let %d stale writes in and refused %d others", r.Writes.Let, r.Writes.Wronged)
	}
	if r.Numbers.Unanswered > 0 {
		s.amiss("%d attempts were never answered", r.Numbers.Unanswered)
	}
	if r.Numbers.Grants == 0 {
		s.amiss("nothing was granted: that proves nothing")
	}
	r.Verdict = "held up"
	if len(r.Findings)+len(r.Amiss) > 0 {
		r.Verdict = "broken"
	}
}

// findings are what the checker finds. A rival is asked whether two held at once, and not whether they were told as early as
// this library promises.
func (s *stage) findings(without []check.Rule) []check.Finding {
	findings := check.History(s.result.History, without...)
	if s.opts.Rival != nil {
		findings = append(findings, check.Believed(s.result.History)...)
	}
	return findings
}

// unchecked are the rules that say nothing about this run.
func (s *stage) unchecked() []Unchecked {
	var left []Unchecked
	leave := func(why string, rules ...check.Rule) {
		for _, rule := range rules {
			left = append(left, Unchecked{rule, why})
		}
	}
	rival := s.opts.Rival
	if rival == nil {
		if s.result.Numbers.Grants > longest {
			leave("the history is too long", check.Linearizable)
		}
		return left
	}
	leave("a promise of this library's; alone is asked instead", check.ToldFirst, check.ToldAtAll, check.LivingNode)
	leave("there are no sessions and nodes whose order would be known", check.Linearizable)
	if !s.isZooKeeper() {
		leave("there are no nodes", check.OwnNode, check.FirstInLine, check.OwnDelete, check.NothingLeft)
	}
	if rival.Token == "" {
		leave("the library has no tokens", check.RisingTokens, check.FencedRegister)
	}
	return left
}

// unexpected tells of errors that no caller of this library should get.
func (s *stage) unexpected() {
	for why, n := range s.result.Numbers.Failures {
		if !isExpected(why) {
			s.amiss("%d attempts failed with %q", n, why)
		}
	}
	for _, e := range s.result.History {
		if e.Kind == history.Released && !isExpected(e.Error) {
			s.amiss("giving back failed: %v", e)
		}
	}
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
	line("contender", "%s; tokens: %s", r.Contender, r.Token)
	line("run", "%v on %d servers (%s), T %v, tick %v, seed %d, commit %s, %s", r.Duration, r.Servers, r.On,
		r.Timeout, r.Tick, r.Seed, r.Commit, r.Go)
	line("contenders", "%d processes with %d clients each; %d were killed, %d pauses", r.Contenders, r.Clients, n.Crashed, n.Pauses)
	line("grants", "%d of %d asked for; %d sessions expired, %d parents reaped", n.Grants, n.Asked, r.Expired, r.Reaped)
	line("ends", "%s", counts(n.Ends))
	line("overlaps, scheduled", "%d (worst %v)", n.Late, n.Latest)
	line("believed on, scheduled", "%d (worst %v)", n.Outlived, n.Longest)
	line("overlaps, not scheduled", "%d paused, %d deleted by hand", n.Unscheduled, n.ByHand)
	line("told before expiry", "%v at worst, of %d", n.ToldBeforeExpiry.Worst, n.ToldBeforeExpiry.Of)
	line("told before the next grant", "%v at worst, of %d", n.ToldBeforeGrant.Worst, n.ToldBeforeGrant.Of)
	stale := fmt.Sprintf("%d by %d late writers reached the registers: the bare ones accepted %d", r.Writes.Stale, r.Writes.Holders, r.Writes.Accepted)
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
	}
	injected := map[string]int{}
	for name, count := range r.Faults {
		injected[name] = count.Injected
	}
	line("faults", "%s", counts(injected))
	for _, path := range slices.Sorted(maps.Keys(r.Had)) {
		line("had in the end", "%s after %v", path, short(r.Had[path]))
	}
	for _, u := range r.Unchecked {
		line("not checked", "%s: %s", u.Rule, u.Why)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Without)) {
		line("no such fault", "%s: %s", name, r.Without[name])
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "\nFINDING %s\n", f.Text)
	}
	for _, text := range r.Amiss {
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
