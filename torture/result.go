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

// A Result is the outcome of a run. In JSON it is the document from which docs/evidence.md is generated.
type Result struct {
	Schema    string    `json:"schema"`
	Verdict   string    `json:"verdict"` // see HeldUp
	Contender string    `json:"contender"`
	Started   time.Time `json:"started"`
	On        string    `json:"on"`                  // servers, with their version
	ZooKeeper string    `json:"zookeeper,omitempty"` // version of the servers, if they are ZooKeeper's
	Go        string    `json:"go"`
	Commit    string    `json:"commit"`           // of the library; with "+" if the checkout had local changes
	Judged    string    `json:"judged,omitempty"` // commit of the checker, if the history was judged again later
	Again     string    `json:"again"`            // command that repeats the run
	Mutant    string    `json:"mutant,omitempty"` // patch that deliberately broke the library: the result says nothing about the library itself

	Duration   history.Instant `json:"duration"` // including the time after the last fault
	Seed       uint64          `json:"seed"`
	Servers    int             `json:"servers"`
	Contenders int             `json:"contenders"`
	Clients    int             `json:"clients"`           // of each contender
	Waiters    int             `json:"waiters,omitempty"` // additional contenders of each process, on each path
	Holds      int             `json:"holds,omitempty"`   // additional uncontended locks of each process
	Timeout    history.Instant `json:"timeout"`           // T
	Tick       history.Instant `json:"tick"`

	// Promises are the rules that were checked, with how often each was tested. Older documents have none.
	Promises []Promise `json:"promises,omitempty"`

	Faults  map[string]FaultCount `json:"faults"`
	Numbers check.Numbers         `json:"numbers"`
	Writes  register.Writes       `json:"writes"`

	Transactions int   `json:"transactions"`      // that the ensemble committed
	Uncommitted  int   `json:"uncommitted"`       // that a server logged, and no majority did
	Expired      int   `json:"expired"`           // sessions that timed out
	Counter      int32 `json:"counter,omitempty"` // next sequence number of the path whose counter started near its maximum, 2147483647
	Reaped       int   `json:"reaped"`            // parent nodes that servers removed

	Token   string                     `json:"token"`             // kind of fencing token that the library has, "none" if it has none
	Tells   string                     `json:"tells,omitempty"`   // what notifies a rival's holder of its loss
	Limits  string                     `json:"limits,omitempty"`  // limits of the test of a rival: how its servers are configured
	Without map[string]string          `json:"without,omitempty"` // faults that do not exist there, with the reasons
	Had     map[string]history.Instant `json:"had,omitempty"`     // how long after all contenders had stopped one more contender acquired each path

	Hands []history.ID `json:"hands"`           // sessions of the operator that changed something; null if they were not recorded
	Ended []history.ID `json:"ended,omitempty"` // sessions of contenders that the operator ended

	Unchecked []Unchecked     `json:"unchecked,omitempty"`     // rules that were not checked
	Found     history.Instant `json:"first_finding,omitempty"` // when the first finding was complete
	Findings  []Finding       `json:"findings"`                // violations of rules by the history
	Problems  []string        `json:"amiss"`                   // other problems, such as failures of the harness
	Untried   []string        `json:"untried,omitempty"`       // planned faults and operations that never happened

	// History has the events of the run. It is not in the document.
	History []history.Event `json:"-"`
}

// FaultCount counts how often a fault was injected, and how often it could not be.
type FaultCount struct {
	Injected int `json:"injected"`
	Missed   int `json:"missed"`
}

// Unchecked is a rule that was not checked.
type Unchecked struct {
	Rule check.Rule `json:"rule"`
	Why  string     `json:"why"`
}

// noToken is the Token of a library without tokens.
const noToken = "none"

// A Finding is a violation of a rule by the history.
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

// mutantName returns the base name of a patch file, without its extension.
func mutantName(patch string) string {
	if patch == "" {
		return ""
	}
	return strings.TrimSuffix(filepath.Base(patch), ".patch")
}

// name returns the name of the contenders.
func (o *Options) name() string {
	if o.Name != "" {
		return o.Name
	}
	return strings.Join(o.Contender, " ")
}

// commit returns the commit of the library: from the build information if it is there, which it is not with `go run`, or from
// the checkout.
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

// longest is how many grants a history may have for porcupine to check it in time.
const longest = 400

// worth is how many findings of a rule are reported in full.
const worth = 20

// judge completes the result.
func (r *run) judge() {
	result := r.result
	result.History = r.recorder.history()
	result.Writes = r.registers.Counts()
	result.Duration = history.Instant(time.Duration(result.History[len(result.History)-1].At).Truncate(time.Second))
	result.judge()
}

// Rejudge checks the history of a finished run again, with the checker of this build. Other recorded problems stay.
func Rejudge(r *Result) {
	r.Judged = commit()
	r.Findings = []Finding{}
	r.Problems = slices.DeleteFunc(r.Problems, func(text string) bool { return strings.HasPrefix(text, judged) })
	r.judge()
}

// judged is the prefix of problems in a history that are not findings of the checker.
const judged = "judged: "

// judge runs the checker.
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
func (r *Result) Own() bool { return r.Tells == "" && len(r.Without) == 0 }

// find checks all rules that apply to the run. It always checks whether a holder believed on after another grant, so that all
// libraries are measured alike; this library promises more.
func (r *Result) find(without []check.Rule) []check.Finding {
	return append(check.History(r.History, without...), check.StaleBeliefs(r.History)...)
}

// unchecked returns the rules that do not apply to this run, with the reasons.
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
	leave("a promise of Lockkeeper's; alone is checked instead", check.FreshGrant, check.NotifiedFirst, check.NotifiedAtAll, check.LivingNode, check.OwnDelete,
		check.BareRegister)
	leave("there are no sessions and nodes whose order is known", check.Linearizable)
	if r.ZooKeeper == "" {
		leave("there are no nodes", check.OwnNode, check.FirstInQueue, check.NothingLeft)
	}
	if r.Token == noToken {
		leave("the library has no tokens", check.RisingTokens, check.FencedRegister)
	}
	return left
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
	if more := len(texts) - worth; more > 0 {
		texts = append(texts[:worth], fmt.Sprintf("%d more unexpected errors", more))
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
