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

// A Scenario is a short story of some processes.
type Scenario struct {
	Name string
	Play func(w *World)
}

// A Variant is the ensemble that a scenario is told on.
type Variant struct {
	Name    string
	Servers int
	Lag     time.Duration // by which servers are behind that do not lead
}

// Variants are those that scenarios are told on.
var Variants = []Variant{
	{"one server", 1, 0},
	{"three servers", 3, 0},
	{"three servers, of which two lag behind", 3, 200 * time.Millisecond},
}

// A Cut is where a scenario is disturbed: the connection of a process ends at the n-th frame that it sends, handshakes
// included, before the frame is carried out or after. It may end once more, some frames later.
type Cut struct {
	Victim string // empty: nobody
	N      int
	After  bool
	Then   int // frames until the second cut, 0: there is none
}

// String is the cut's text form: "a before 3", or "a after 3 and 2" if it is cut again 2 frames later.
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

// cutText is what ParseCut reads.
func cutText(v Variant, c Cut) string { return fmt.Sprintf("%s: %v", v.Name, c) }

// ParseCut reads a variant and a cut.
func ParseCut(text string) (Variant, Cut, error) {
	name, what, _ := strings.Cut(text, ": ")
	i := slices.IndexFunc(Variants, func(v Variant) bool { return v.Name == name })
	if i < 0 {
		return Variant{}, Cut{}, fmt.Errorf("cut %q: no such variant", text)
	}
	if what == "untouched" {
		return Variants[i], Cut{}, nil
	}
	var c Cut
	var side string
	if n, err := fmt.Sscanf(what, "%s %s %d and %d", &c.Victim, &side, &c.N, &c.Then); n < 3 || c.N < 1 || side != "before" && side != "after" {
		return Variant{}, Cut{}, fmt.Errorf("cut %q: want a victim, before or after, and a frame (%w)", text, err)
	}
	c.After = side == "after"
	return Variants[i], c, nil
}

// Run tells the scenario, in a bubble. sprung says whether it came to the frame at which it was to be cut.
func (s Scenario) Run(v Variant, c Cut) (events []history.Event, sprung bool, err error) {
	const timeout = 4 * time.Second
	w, err := newWorld(Options{
		Servers: v.Servers, Timeout: timeout, Tick: timeout / 4, Reap: time.Hour, Paths: []string{"/l"}, Flight: v.Lag + 4*near,
	}, fmt.Sprintf("%s, %s, %v", s.Name, v.Name, c))
	if err != nil {
		return nil, false, err
	}
	w.cut, w.lag = c, v.Lag
	if v.Lag > 0 {
		for i := 1; i < v.Servers; i++ {
			w.ensemble.Server(i).Lag(v.Lag)
		}
	}
	s.Play(w)
	w.settle()
	w.close()
	return w.recorder.Events(), w.trap != nil && w.trap.Sprung(), errors.Join(w.problems...)
}

// lay sets the traps for a process that is about to connect.
func (w *World) lay(p *Process) {
	if w.cut.Victim != p.name {
		return
	}
	cut, other := p.link.CutBefore, p.link.CutAfter
	if w.cut.After {
		cut, other = other, cut
	}
	w.trap = cut(w.cut.N)
	if w.cut.Then > 0 {
		w.trap = other(w.cut.N + w.cut.Then)
	}
}

// told are the fields of a world in which a scenario is told.
type told struct {
	cut  Cut
	trap *zktest.Trap // the last one
	lag  time.Duration
}
