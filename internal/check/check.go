// SPDX-License-Identifier: Apache-2.0

// Package check judges histories: whether a run kept what locks and elections promise.
//
// Each promise is a [Rule]. Exclusion, the order of tokens and the fenced register are checked twice: by plain rules,
// whose findings name the lines that break them, and by porcupine against a model of a lock with a register behind it,
// which knows nothing of nodes, zxids and sessions.
//
// What is excused, because package recipes does not promise it, is decided in one place: see hold.excuse.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// A Rule is something that every history must keep.
type Rule string

// The rules.
const (
	// WellFormed: the events fit together. A history that breaks it says nothing about the others.
	WellFormed Rule = "well-formed"
	// OwnNode: a grant stands on a node that its own session made, and its token is that node's czxid.
	OwnNode Rule = "own-node"
	// FirstInLine: at the instant of a grant no contender's node that came before it lives. That is exclusion as the
	// ensemble orders it, and that nobody is overtaken.
	FirstInLine Rule = "first-in-line"
	// LivingNode: at the instant of a grant its node lives. Excused: nodes deleted by hand a moment before, contenders that
	// were paused.
	LivingNode Rule = "living-node"
	// FreshGrant: at the instant of a grant the claim's deadline is T/8 away at least. The client grants with T/4 left; the
	// other T/8 is for the time until the caller runs. Grants that state no deadline are not checked. Excused: contenders
	// that were paused.
	FreshGrant Rule = "fresh-grant"
	// RisingTokens: the tokens of a path rise from grant to grant.
	RisingTokens Rule = "rising-tokens"
	// ToldFirst: a holder is told before its node is gone and before another is granted the path; and T/8 before its
	// session times out, where T is four ticks or more. Excused: nodes deleted by hand; contenders that were paused at
	// that instant, who are told when they wake.
	ToldFirst Rule = "told-first"
	// ToldAtAll: a holder whose node is gone, for whatever reason, is told in 3T/4, the longest that a proof lasts.
	ToldAtAll Rule = "told-at-all"
	// FencedRegister: a register that checks tokens never accepts one that is older than one it has accepted, and refuses
	// no other.
	FencedRegister Rule = "fenced-register"
	// BareRegister: nor does one that checks nothing come to see an older one, unless it is excused.
	BareRegister Rule = "bare-register"
	// HeldState: what is written to the ensemble under a grant is, in the ensemble's own order, while the grant's node
	// lives. Nothing is excused, by hand or by a pause: it depends on no clock.
	HeldState Rule = "held-state"
	// EpochOrder: epochs are claimed 1, 2, 3 and so on, by tokens that rise, while the claimer's node lives; and nothing is
	// written in an epoch that is not the newest. Nothing is excused, but that the numbers begin anew where the node was
	// deleted, and go on from what was written into it by hand.
	EpochOrder Rule = "epoch-order"
	// TrueAnswer: what was answered as done has been carried out before, what was answered as refused never is, and all
	// else is carried out once and as a whole, or not at all.
	TrueAnswer Rule = "true-answer"
	// OwnDelete: nobody's request deletes the node of another session.
	OwnDelete Rule = "own-delete"
	// NothingLeft: at the end no node of a contender is left.
	NothingLeft Rule = "nothing-left"
	// Linearizable: porcupine finds an order in which a lock with a register behind it would have done the same.
	Linearizable Rule = "linearizable"
)

// Rules are all of them, but for WellFormed.
var Rules = []Rule{
	OwnNode, FirstInLine, LivingNode, FreshGrant, RisingTokens, ToldFirst, ToldAtAll, FencedRegister, BareRegister, HeldState, EpochOrder, TrueAnswer,
	OwnDelete, NothingLeft, Linearizable,
}

// A Finding is a rule that was broken, and where.
type Finding struct {
	Rule   Rule
	Text   string
	Events []history.Event
}

// String is the finding in a sentence, and its events a line each.
func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", f.Rule, f.Text)
	for _, e := range f.Events {
		fmt.Fprintf(&b, "\n    %v", e)
	}
	return b.String()
}

// History returns what is wrong with a history, nothing if all rules are kept, but for those that are left out: a long
// history is too long for Linearizable. It does not change events.
func History(events []history.Event, without ...Rule) []Finding {
	s, findings := newStory(events)
	if len(findings) > 0 {
		return findings
	}
	for _, rule := range []func(*story) []Finding{
		grants, fresh, told, tokens, registers, transactions, deletions, leftovers,
	} {
		findings = append(findings, rule(s)...)
	}
	if !slices.Contains(without, Linearizable) {
		findings = append(findings, linearizable(s)...)
	}
	return slices.DeleteFunc(findings, func(f Finding) bool { return slices.Contains(without, f.Rule) })
}

// Broken are the rules that findings are about, each once.
func Broken(findings []Finding) []Rule {
	var rules []Rule
	for _, f := range findings {
		if !slices.Contains(rules, f.Rule) {
			rules = append(rules, f.Rule)
		}
	}
	slices.SortFunc(rules, cmp.Compare[Rule])
	return rules
}
