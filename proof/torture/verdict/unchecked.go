// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

// An exemption is a reason for which some runs do not check some rules.
type exemption struct {
	when  func(r *Result) bool
	why   string
	rules []check.Rule
}

// exemptions contains all exemptions, in the order in which documents list them.
var exemptions = []exemption{
	{
		always, "contenders claim no epoch, and do not record the answers of the ensemble: the simulation and proof/torture/suite check it",
		[]check.Rule{check.EpochOrder, check.TrueAnswer},
	},
	{func(r *Result) bool { return r.Replicas == 0 }, "there is no lock service", []check.Rule{check.KeptLease, check.LeaseRecord}},
	{
		always, "a server that is isolated from its leader keeps members registered for a while: the simulation checks it",
		[]check.Rule{check.TrueMembership},
	},
	{
		func(r *Result) bool { return r.Own() && !slices.ContainsFunc(r.History, statesDeadline) }, "the contenders state no deadline at a grant",
		[]check.Rule{check.FreshGrant},
	},
	{
		func(r *Result) bool { return r.Own() && !slices.ContainsFunc(r.History, statesQuorum) },
		"the run does not record when there was a quorum",
		[]check.Rule{check.HolderInTime},
	},
	{
		func(r *Result) bool { return r.Replicas > 0 && slices.ContainsFunc(r.History, statesQuorum) },
		"the leases of callers that have disappeared last for longer than T",
		[]check.Rule{check.HolderInTime},
	},
	{
		ofRival, "a promise of Lockkeeper's; alone is checked instead",
		[]check.Rule{
			check.FreshGrant, check.NotifiedFirst, check.NotifiedAtAll, check.LivingNode, check.OwnDelete, check.BareRegister, check.TrueRelease, check.HolderInTime,
			check.TimeToStop,
		},
	},
	{ofRival, "there are no sessions and nodes whose order is known", []check.Rule{check.Linearizable}},
	{
		func(r *Result) bool { return ofRival(r) && r.ZooKeeper == "" }, "there are no nodes",
		[]check.Rule{check.OwnNode, check.FirstInQueue, check.NothingLeft},
	},
	{
		func(r *Result) bool { return ofRival(r) && r.Token == NoToken }, "the library has no tokens",
		[]check.Rule{check.RisingTokens, check.FencedRegister},
	},
}

func always(*Result) bool { return true }

func ofRival(r *Result) bool { return !r.Own() }

// statesDeadline reports whether an event is a grant with its deadline.
func statesDeadline(e history.Event) bool { return e.Kind == history.Granted && e.Deadline != 0 }

// statesQuorum reports whether an event is the beginning of a quorum.
func statesQuorum(e history.Event) bool { return e.Kind == history.Quorum }

// unchecked returns the rules that do not apply to this run, with the reasons.
func (r *Result) unchecked() (unchecked []Unchecked) {
	skip := func(why string, rules []check.Rule) {
		for _, rule := range rules {
			unchecked = append(unchecked, Unchecked{rule, why})
		}
	}
	for _, e := range exemptions {
		if e.when(r) {
			skip(e.why, e.rules)
		}
	}
	for _, c := range recipes {
		// Results of earlier runs list members and state no recipes.
		if _, has := r.Recipes[c.name]; !has && (c.name != "group" || !slices.ContainsFunc(r.History, listsMembers)) {
			skip(c.absent+": the simulation checks it", c.rules)
		}
	}
	return unchecked
}

// listsMembers reports whether an event is a listing of a group.
func listsMembers(e history.Event) bool { return e.Kind == history.Listed }
