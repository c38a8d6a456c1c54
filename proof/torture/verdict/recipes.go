// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/attempt"
)

// A recipe is one that contenders with sessions exercise.
type recipe struct {
	name   string
	counts history.Kind // events that exercise it; "" if grants of its operations do, see attempt.RecipeOf
	absent string       // why its rules are not checked where it is not exercised
	rules  []check.Rule
}

// recipes contains all recipes, in the order in which documents list their rules.
var recipes = []recipe{
	{name: "lock"},
	{name: "election"},
	{name: "reader"},
	{name: "writer"},
	{name: "nested lock"},
	{name: "downgrade", counts: history.Downgraded},
	{name: "hand-over", counts: history.HandedOver},
	{"group", history.Listed, "the contenders list no members", []check.Rule{check.TrueListing}},
	{"schedule", history.Ran, "the contenders run no schedule", []check.Rule{check.ActivationOnce}},
	{"partition", history.Working, "the contenders own no partitions", []check.Rule{check.OwnedWork, check.AssignedByLeader}},
	{"permits", "", "the contenders use no semaphore", []check.Rule{check.PermitsWithinLimit}},
	{"slot", "", "the contenders use no slots", []check.Rule{check.OneNumber}},
	{"several locks", "", "the contenders request no several locks together", []check.Rule{check.AllOrNothing}},
	{"takeover", history.Fenced, "the contenders have no lock-delay", []check.Rule{check.CrashOrClean}},
	{"published value", history.Proclaimed, "the leaders publish no value", []check.Rule{check.HeldState}},
	{"observer", history.Observed, "the contenders observe no leader", []check.Rule{check.TrueLeader}},
	{"barrier", history.Passed, "the contenders use no barrier", []check.Rule{check.OpenBarrier}},
	{"double barrier", history.Left, "the contenders use no double barrier", []check.Rule{check.FullRound, check.WholeRound}},
}

// Recipes returns each recipe, counted 0 times.
func Recipes() map[string]int {
	counts := map[string]int{}
	for _, c := range recipes {
		counts[c.name] = 0
	}
	return counts
}

// exercised counts how often a history exercises recipes. A request for several locks counts once.
func exercised(events []history.Event) map[string]int {
	counts, byKind, byAttempt := map[string]int{}, map[history.Kind]string{}, map[int]string{}
	for _, c := range recipes {
		byKind[c.counts] = c.name
	}
	for _, e := range events {
		name, is := byKind[e.Kind]
		switch e.Kind {
		case history.Asked:
			if e.Together == 0 || e.Together == e.Attempt {
				byAttempt[e.Attempt] = attempt.RecipeOf(e.Text)
			}
		case history.Granted:
			name, is = byAttempt[e.Attempt]
		}
		if is {
			counts[name]++
		}
	}
	return counts
}
