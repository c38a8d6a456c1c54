// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A Scenario is a short script for a few processes.
type Scenario struct {
	Name   string
	Script func(w *World)
}

// A Variant is an ensemble that scenarios run on.
type Variant struct {
	Name    string
	Servers int
	Lag     time.Duration // of the followers behind the leader
}

// Variants contains the ensembles that scenarios run on.
var Variants = []Variant{
	{"one server", 1, 0},
	{"three servers", 3, 0},
	{"three servers, of which two lag behind", 3, 200 * time.Millisecond},
}

// A Cut is the fault of a scenario: the connection of a process ends at the n-th frame that it sends, handshakes included,
// before or after the server carries the frame out. It may end once more, some frames later.
type Cut struct {
	Victim string // process; empty: no cut
	N      int
	After  bool
	Then   int // frames until the second cut; 0: only one cut
}

// String returns the cut's text form: "a before 3", "a after 3 and 2" for a second cut 2 frames later, or "untouched".
func (c Cut) String() string {
	if c.Victim == "" {
		return "untouched"
	}
	text := fmt.Sprintf("%s before %d", c.Victim, c.N)
	if c.After {
		text = fmt.Sprintf("%s after %d", c.Victim, c.N)
	}
	if c.Then > 0 {
		text += fmt.Sprintf(" and %d", c.Then)
	}
	return text
}

// cutText returns the text form of a variant and a cut.
func cutText(v Variant, c Cut) string { return fmt.Sprintf("%s: %v", v.Name, c) }

// ParseCut parses the text form of a variant and a cut.
func ParseCut(text string) (Variant, Cut, error) {
	name, what, _ := strings.Cut(text, ": ")
	i := slices.IndexFunc(Variants, func(v Variant) bool { return v.Name == name })
	if i < 0 {
		return Variant{}, Cut{}, fmt.Errorf("parse cut %q: unknown variant", text)
	}
	if what == "untouched" {
		return Variants[i], Cut{}, nil
	}
	var c Cut
	var side string
	if n, err := fmt.Sscanf(what, "%s %s %d and %d", &c.Victim, &side, &c.N, &c.Then); n < 3 || c.N < 1 || side != "before" && side != "after" {
		return Variant{}, Cut{}, fmt.Errorf("parse cut %q: want a victim, before or after, and a frame (%w)", text, err)
	}
	c.After = side == "after"
	return Variants[i], c, nil
}

// Run runs the scenario in a synctest bubble. sprung reports whether it reached the frame of the last cut.
func (s Scenario) Run(v Variant, c Cut) (events []history.Event, sprung bool, err error) {
	const timeout = 4 * time.Second
	w, err := newWorld(Options{
		Servers: v.Servers, Timeout: timeout, Tick: timeout / 4, Reap: time.Hour, Paths: []string{lockPath}, Flight: v.Lag + 4*defaultLatency,
	}, fmt.Sprintf("%s, %s, %v", s.Name, v.Name, c))
	if err != nil {
		return nil, false, err
	}
	w.cut, w.lag = c, v.Lag
	if v.Lag > 0 {
		for _, follower := range w.ensemble.Servers()[1:] {
			follower.Lag(v.Lag)
		}
	}
	s.Script(w)
	w.settle()
	w.close()
	return w.recorder.Events(), w.trap != nil && w.trap.Sprung(), errors.Join(w.problems...)
}

// setTraps sets the cuts of a process that is about to connect.
func (w *World) setTraps(p *Process) {
	if w.cut.Victim != p.name {
		return
	}
	lose, other := p.link.LoseRequest, p.link.LoseReply
	if w.cut.After {
		lose, other = other, lose
	}
	w.trap = lose(w.cut.N)
	if w.cut.Then > 0 {
		w.trap = other(w.cut.N + w.cut.Then)
	}
}

// A disturbance contains the fields of a World that runs a scenario.
type disturbance struct {
	cut  Cut
	trap *zktest.Trap  // of the last cut
	lag  time.Duration // of the followers
}
