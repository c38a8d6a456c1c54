// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// A Variant is an ensemble that scenarios run on.
type Variant struct {
	Name    string
	Servers int
	Lag     time.Duration // of the followers behind the leader
	SASL    bool          // see Options
	Keeper  bool          // likewise
}

// Variants contains the ensembles that scenarios run on.
var Variants = []Variant{
	{"one server", 1, 0, false, false},
	{"three servers", 3, 0, false, false},
	{"three servers, of which two lag behind", 3, 200 * time.Millisecond, false, false},
	{"three servers that require a login", 3, 0, true, false},
	{"one server of ClickHouse Keeper", 1, 0, false, true},
}

// runs reports whether the scenario runs on the ensemble. A login belongs to the connection, whatever the recipe: one
// scenario has every cut of it. With ClickHouse Keeper, a cut ends the session, which some scripts do not allow for.
func (v Variant) runs(s Scenario) bool {
	switch {
	case v.SASL:
		return s.Name == contention
	case v.Keeper:
		return !slices.Contains(sessionKept, s.Name)
	}
	return true
}

// sessionKept contains the names of the scenarios whose scripts rely on a session that outlives its connection, or whose nodes
// are deleted when it ends. Files of recipes add theirs.
var sessionKept = []string{
	"a candidate with a priority vanishes before the term ends",
	"a candidate with a priority vanishes, and one behind it has a higher one",
	"a holding client is closed",
	"an operator deletes a waiter's node a moment before it would be granted",
	"the connection ends during a release, and the parent is reaped before the reconnection",
	"the same, and the next contender knows the former parent",
	"a waiter reconnects twice while a limit is raised, with watches in several packets",
	"TryLock of a held lock, and again when it is free",
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

// A disturbance contains the fields of a World that runs a scenario.
type disturbance struct {
	cut  Cut
	trap *zktest.Trap  // of the last cut
	lag  time.Duration // of the followers
}
