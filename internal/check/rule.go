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
	// FirstInQueue: at the instant of a grant, no contender node created before the grant's node still exists, other than
	// those of readers before a reader's, and of permits before permits. That is exclusion in the ensemble's commit order, readers and writers included, and
	// it means that no contender overtakes another.
	FirstInQueue Rule = "first-in-line"
	// PermitsWithinLimit: at the transaction that grants permits, they and those of all contender nodes created before that still
	// exist, holders or not, are within the limit that is stored then, in the ensemble's commit order. A contender without a
	// weight counts as the limit. FirstInQueue does not apply between contenders that have weights. Nothing is excused.
	PermitsWithinLimit Rule = "permits-within-limit"
	// AllOrNothing: a request for several locks is granted all of them, or none. The holder of all is notified within 3T/4 after
	// the first of the nodes is gone, whichever lock it is. A request that has failed leaves no node: what its client created
	// for it is gone within 8T, which is longer than a session without a server lives, and longer than the runs have no quorum.
	// Excused: contenders that were paused, until they wake.
	AllOrNothing Rule = "all-or-nothing"
	// LivingNode: at the instant of a grant, its node exists. Excused: a node that an operator deleted a moment before, and
	// contenders that were paused.
	LivingNode Rule = "living-node"
	// FreshGrant: at the instant of a grant, the claim's deadline is at least T/8 away. The client grants with at least T/4
	// left; the difference covers the time until the caller runs. Grants that state no deadline are not checked. Excused:
	// contenders that were paused. The deadline of a lease follows from its TTL and proves no session: see KeptLease.
	FreshGrant Rule = "fresh-grant"
	// RisingTokens: the tokens of a path rise from grant to grant. Those of readers only rise from writer to reader and from
	// reader to writer.
	RisingTokens Rule = "rising-tokens"
	// NotifiedFirst: a holder is notified before its node is gone and before the path is granted again, other than to a reader
	// beside it. Where its session times out and T is at least four ticks, it is notified at least T/8 before the timeout; where
	// its lease expires, an eighth of the TTL before. Excused: nodes deleted by an
	// operator, and contenders that were paused at that instant, which are notified when they wake.
	NotifiedFirst Rule = "told-first"
	// NotifiedAtAll: a holder whose node is gone, for whatever reason, is notified within 3T/4, the longest that a proof of
	// liveness lasts, or within the TTL of its lease if that is longer.
	NotifiedAtAll Rule = "told-at-all"
	// FencedRegister: a register that checks tokens never accepts a token older than one that it has accepted, and rejects
	// no other. The access of a reader makes no token the newest.
	FencedRegister Rule = "fenced-register"
	// BareRegister: a register that checks nothing receives no older token after a newer one either, unless the writer is
	// excused.
	BareRegister Rule = "bare-register"
	// KeptLease: an acknowledged lease lasts longer than the validity that its holder was given. Unless its holder releases it or an operator
	// deletes it, its node exists for the TTL × 33/32 after the last write of its record, and the validity that the holder
	// states at the grant ends within the TTL after that write. A revocation is such a write. A lease that nothing ends breaks
	// NothingLeft.
	KeptLease Rule = "kept-lease"
	// LeaseRecord: the record of a lease is written by the rules. A record that was revoked is never written again. The TTL
	// of a held record never decreases. A record is written as held only while no contender is ahead, and not as waiting
	// after that; the exception is the write that creates the node, which grants nothing if a contender is ahead. A lease
	// is granted only after its record was written as held while no contender was ahead. Nothing is excused. Histories that
	// do not state which records are held are not checked.
	LeaseRecord Rule = "lease-record"
	// TrueRelease: a release that returns no error has deleted the grant's node before, and no grant ends as released before its
	// contender began to release it.
	TrueRelease Rule = "true-release"
	// HeldState: a write to the ensemble under a grant, such as a value that a leader publishes, is committed while the grant's node exists. Nothing is excused, not
	// even an operator's deletion or a pause, because this rule depends on no clock.
	HeldState Rule = "held-state"
	// EpochOrder: epochs are claimed as 1, 2, 3 and so on, with rising tokens, while the claimer's node exists, and every
	// write in an epoch is in the newest one. Nothing is excused. The numbers restart where the node of the epochs was
	// deleted, and continue from a number that an operator wrote into it.
	EpochOrder Rule = "epoch-order"
	// TrueAnswer: a write answered as done was carried out before, one answered as refused never is, and every other is
	// carried out once and as a whole, or not at all.
	TrueAnswer Rule = "true-answer"
	// TrueMembership: when a client states that its member of a group is registered, a node that its session created
	// exists. Excused: a node that an operator deleted T/4 before at most, and contenders that were paused.
	TrueMembership Rule = "true-membership"
	// TrueListing: a listing of a group names each member once, and exactly those whose nodes existed at its revision, in the
	// ensemble's commit order. The revisions that one contender gets do not fall. Nothing is excused.
	TrueListing Rule = "true-listing"
	// TickOnce: a tick of a schedule is stored at most once, by a leader whose node exists, and later than the ticks stored
	// before; it is run at most once, after the same leader has stored it. Nothing is excused, not even a pause.
	TickOnce Rule = "tick-once"
	// CrashOrClean: after a holder that did not release, the path is granted again only when the lock-delay has passed since
	// its node was gone, and when a contender has fenced that holder since. A holder did not release if it lost its claim before it
	// began to release it, or crashed before. Histories and paths without a lock-delay are not checked. Nothing is excused.
	CrashOrClean Rule = "crash-or-clean"
	// TrueLeader: what an observer is shown of a leader is what that leader published last or earlier in its term, in the
	// ensemble's commit order. Of two leaders, an observer is shown the one with the greater token last, and the values of one
	// in the order in which it published them; the ensemble commits them in this order, too. Nothing is excused, not even a
	// pause or a server that lags.
	TrueLeader Rule = "true-leader"
	// OpenBarrier: a contender that passes a barrier waited for it when its node did not exist, in the ensemble's commit
	// order. Nothing is excused.
	OpenBarrier Rule = "open-barrier"
	// FullRound: a contender enters a round of a double barrier only after as many nodes of members as the barrier's size
	// existed at the same time. No more members than that enter it, and none while a member of another round is in that.
	// Excused: members whose node was deleted.
	FullRound Rule = "full-round"
	// WholeRound: a contender leaves a round of a double barrier only after all other members have begun to leave. Excused:
	// members whose node was deleted.
	WholeRound Rule = "whole-round"
	// OwnDelete: no request deletes the node of another session.
	OwnDelete Rule = "own-delete"
	// NothingLeft: at the end no contender node is left, and no member's.
	NothingLeft Rule = "nothing-left"
	// Linearizable: porcupine finds an order in which a lock with a register behind it would have done the same.
	Linearizable Rule = "linearizable"
)

// Rules contains all rules except WellFormed.
var Rules = []Rule{
	OwnNode, FirstInQueue, PermitsWithinLimit, AllOrNothing, LivingNode, FreshGrant, RisingTokens, NotifiedFirst, NotifiedAtAll, FencedRegister, BareRegister,
	KeptLease, LeaseRecord, TrueRelease, HeldState, EpochOrder, TrueAnswer, TrueMembership, TrueListing, TickOnce, CrashOrClean, TrueLeader,
	OpenBarrier, FullRound, WholeRound, OwnDelete, NothingLeft, Linearizable,
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
