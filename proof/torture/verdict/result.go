// SPDX-License-Identifier: Apache-2.0

// Package verdict judges the documents of torture runs.
package verdict

import (
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"runtime/debug"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/register"
)

// Schema names the shape of a Result in JSON. It changes when a field changes its meaning.
const Schema = "lockkeeper-torture/1"

// A Result is the outcome of a run. In JSON it is the document from which docs/evidence.md is generated.
type Result struct {
	Schema    string            `json:"schema"`
	Verdict   string            `json:"verdict"` // see Valid
	Contender string            `json:"contender"`
	Started   time.Time         `json:"started"`
	On        string            `json:"on"`                  // servers, with their version
	ZooKeeper string            `json:"zookeeper,omitempty"` // version of the servers, if they are ZooKeeper's
	Go        string            `json:"go"`
	Commit    string            `json:"commit"`           // of the library; with "+" if the checkout had local changes
	Trees     map[string]string `json:"trees,omitempty"`  // Git hashes of the product: see Product
	Judged    string            `json:"judged,omitempty"` // commit of the checker, if the history was judged again later
	Again     string            `json:"again"`            // command that repeats the run
	Mutant    string            `json:"mutant,omitempty"` // patch that deliberately broke the library: the result says nothing about the library itself

	Duration   history.Instant `json:"duration"` // including the time after the last fault
	Seed       uint64          `json:"seed"`
	Servers    int             `json:"servers"`
	Contenders int             `json:"contenders"`
	Replicas   int             `json:"replicas,omitempty"` // of the lock service, which every second contender used
	Clients    int             `json:"clients"`            // of each contender
	Waiters    int             `json:"waiters,omitempty"`  // additional contenders of each process, on each path
	Holds      int             `json:"holds,omitempty"`    // additional uncontended locks of each process
	Timeout    history.Instant `json:"timeout"`            // T
	Tick       history.Instant `json:"tick"`

	// Recipes are those that the contenders had to exercise, with how often each was. Older documents have none.
	Recipes map[string]int `json:"recipes,omitempty"`
	// Promises are the rules that were checked, with how often each was tested. Older documents have none.
	Promises []Promise `json:"promises,omitempty"`

	Faults  map[string]FaultCount `json:"faults"`
	Numbers check.Numbers         `json:"numbers"`
	Writes  register.Writes       `json:"writes"`

	Transactions int   `json:"transactions"`      // that the ensemble committed
	Uncommitted  int   `json:"uncommitted"`       // that a server logged, without a majority
	Expired      int   `json:"expired"`           // sessions that timed out
	Counter      int32 `json:"counter,omitempty"` // next sequence number of the path whose counter started near its maximum, 2147483647
	Reaped       int   `json:"reaped"`            // parent nodes that servers removed

	Token      string                     `json:"token"`             // kind of fencing token that the library has, "none" if it has none
	NotifiedBy string                     `json:"tells,omitempty"`   // what notifies a rival's holder of its loss
	Limits     string                     `json:"limits,omitempty"`  // limits of the test of a rival: how its servers are configured
	Without    map[string]string          `json:"without,omitempty"` // faults that do not exist there, with the reasons
	Acquired   map[string]history.Instant `json:"had,omitempty"`     // how long after all contenders had stopped one more contender acquired each path

	OperatorSessions []history.ID `json:"hands"`           // sessions of the operator that changed something; null if they were not recorded
	EndedSessions    []history.ID `json:"ended,omitempty"` // sessions of contenders that the operator ended, or tried to

	Unchecked    []Unchecked     `json:"unchecked,omitempty"`     // rules that were not checked
	FirstFinding history.Instant `json:"first_finding,omitempty"` // when the first finding was complete
	Findings     []Finding       `json:"findings"`                // violations of rules by the history
	Problems     []string        `json:"amiss"`                   // other problems of the contenders, such as one that ended by itself
	Failures     []string        `json:"failures,omitempty"`      // of the servers and the harness; older documents have them among the problems
	Untried      []string        `json:"untried,omitempty"`       // planned faults and operations that never happened

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

// NoToken is the Token of a library without tokens.
const NoToken = "none"

// A Finding is a violation of a rule by the history.
type Finding struct {
	Rule check.Rule `json:"rule"`
	Text string     `json:"text"`
}

// Commit returns the commit of the library: from the build information if it is there, which it is not with `go run`, or from
// the checkout.
func Commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		if commit := settings["vcs.revision"]; commit != "" {
			commit = commit[:min(12, len(commit))]
			if settings["vcs.modified"] == "true" {
				commit += "+"
			}
			return commit
		}
	}
	out, err := exec.Command("git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
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

// StoppedWriters returns how many holders sent a stale write after they had been stopped.
func (r *Result) StoppedWriters() int { return r.Numbers.StaleWriters[check.Paused] }

// WriteView writes porcupine's view of the longest window that it has searched, or of the first one without an order, in HTML.
func (r *Result) WriteView(to io.Writer) error { return check.Visualize(r.History, to) }
