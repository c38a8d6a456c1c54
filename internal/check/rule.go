// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// A Rule is a property that every history must have.
type Rule string

// The rules. Evidence documents and kept histories contain these values, so they do not change.
const (
	// WellFormed: the events fit together. The other rules are not checked on a history that breaks it.
	WellFormed Rule = "well-formed"
	// OwnNode: a grant belongs to a node that its own session created, and its token is that node's czxid.
	OwnNode Rule = "own-node"
	// FirstInQueue: at the instant of a grant, no contender node created before the grant's node still exists. That is
	// exclusion in the ensemble's commit order, and it means that no contender overtakes another.
	FirstInQueue Rule = "first-in-line"
	// LivingNode: at the instant of a grant, its node exists. Excused: a node that an operator deleted a moment before, and
	// contenders that were paused.
	LivingNode Rule = "living-node"
	// FreshGrant: at the instant of a grant, the claim's deadline is at least T/8 away. The client grants with at least T/4
	// left; the difference covers the time until the caller runs. Grants that state no deadline are not checked. Excused:
	// contenders that were paused.
	FreshGrant Rule = "fresh-grant"
	// RisingTokens: the tokens of a path rise from grant to grant.
	RisingTokens Rule = "rising-tokens"
	// NotifiedFirst: a holder is notified before its node is gone and before the path is granted again. Where its session
	// times out and T is at least four ticks, it is notified at least T/8 before the timeout. Excused: nodes deleted by an
	// operator, and contenders that were paused at that instant, which are notified when they wake.
	NotifiedFirst Rule = "told-first"
	// NotifiedAtAll: a holder whose node is gone, for whatever reason, is notified within 3T/4, the longest that a proof of
	// liveness lasts.
	NotifiedAtAll Rule = "told-at-all"
	// FencedRegister: a register that checks tokens never accepts a token older than one that it has accepted, and rejects
	// no other.
	FencedRegister Rule = "fenced-register"
	// BareRegister: a register that checks nothing receives no older token after a newer one either, unless the writer is
	// excused.
	BareRegister Rule = "bare-register"
	// HeldState: a write to the ensemble under a grant is committed while the grant's node exists. Nothing is excused, not
	// even an operator's deletion or a pause, because this rule depends on no clock.
	HeldState Rule = "held-state"
	// EpochOrder: epochs are claimed as 1, 2, 3 and so on, with rising tokens, while the claimer's node exists, and every
	// write in an epoch is in the newest one. Nothing is excused. The numbers restart where the node of the epochs was
	// deleted, and continue from a number that an operator wrote into it.
	EpochOrder Rule = "epoch-order"
	// TrueAnswer: a write answered as done was carried out before, one answered as refused never is, and every other is
	// carried out once and as a whole, or not at all.
	TrueAnswer Rule = "true-answer"
	// OwnDelete: no request deletes the node of another session.
	OwnDelete Rule = "own-delete"
	// NothingLeft: at the end no contender node is left.
	NothingLeft Rule = "nothing-left"
	// Linearizable: porcupine finds an order in which a lock with a register behind it would have done the same.
	Linearizable Rule = "linearizable"
)

// Rules contains all rules except WellFormed.
var Rules = []Rule{
	OwnNode, FirstInQueue, LivingNode, FreshGrant, RisingTokens, NotifiedFirst, NotifiedAtAll, FencedRegister, BareRegister,
	HeldState, EpochOrder, TrueAnswer, OwnDelete, NothingLeft, Linearizable,
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
	var rules []Rule
	for _, f := range findings {
		if !slices.Contains(rules, f.Rule) {
			rules = append(rules, f.Rule)
		}
	}
	slices.SortFunc(rules, cmp.Compare[Rule])
	return rules
}
