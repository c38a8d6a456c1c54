// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// A Rule is the name of a property that every history must have. Evidence documents and kept histories contain the names, so
// they do not change. Each rule has a file, which registers it.
type Rule string

// WellFormed: the events fit together. The other rules are not checked on a history that breaks it.
const WellFormed Rule = "well-formed"

// A definition defines a rule.
type definition struct {
	name    Rule
	meaning string
	counts  string
	judge   func(t *timeline, found report)
	tests   func(t *timeline) int // how often the history tests the rule
}

// A report records a violation of the rule that is judged. It skips events that the history does not contain.
type report func(text string, events ...history.Event)

// rules contains all rules except WellFormed, by name.
var rules = map[Rule]definition{}

// register adds a rule.
func register(d definition) Rule {
	rules[d.name] = d
	return d.name
}

// Rules returns the rules that History checks, sorted.
func Rules() []Rule {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(rules)), func(r Rule) bool { return r == SoleHolder })
}

// Meaning returns the rule in one sentence, for people.
func (r Rule) Meaning() string { return rules[r].meaning }

// Counts returns what counts as one test of the rule: an occasion on which a faulty implementation would have broken it.
func (r Rule) Counts() string { return rules[r].counts }

// eachHold judges one hold after the other, in the order of their grants.
func eachHold(judge func(t *timeline, h *hold, found report)) func(*timeline, report) {
	return func(t *timeline, found report) {
		for _, h := range t.holds {
			judge(t, h, found)
		}
	}
}

// perHold counts the holds that test a rule.
func perHold(tests func(t *timeline, h *hold) bool) func(*timeline) int {
	return func(t *timeline) (n int) {
		for _, h := range t.holds {
			if tests(t, h) {
				n++
			}
		}
		return n
	}
}

// perNode counts the nodes of contenders and members that test a rule.
func perNode(tests func(t *timeline, n *node) bool) func(*timeline) int {
	return func(t *timeline) (count int) {
		for _, n := range t.owned() {
			if tests(t, n) {
				count++
			}
		}
		return count
	}
}

// perEvent counts the events of a kind.
func perEvent(kind history.Kind) func(*timeline) int {
	return func(t *timeline) int { return len(t.of(kind)) }
}

// A Finding is one violation of a rule.
type Finding struct {
	Rule   Rule
	Text   string
	Events []history.Event
}

// String returns the rule, the finding in a sentence, and its events on a line each.
func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", f.Rule, f.Text)
	for _, e := range f.Events {
		fmt.Fprintf(&b, "\n    %v", e)
	}
	return b.String()
}

// Broken returns the rules that findings violate, each once, sorted.
func Broken(findings []Finding) []Rule {
	var broken []Rule
	for _, f := range findings {
		if !slices.Contains(broken, f.Rule) {
			broken = append(broken, f.Rule)
		}
	}
	slices.SortFunc(broken, cmp.Compare[Rule])
	return broken
}
