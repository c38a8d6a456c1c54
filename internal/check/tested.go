// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// Meaning states each rule in one sentence, for people.
var Meaning = map[Rule]string{
	OwnNode:            "a grant is on a node that its own session created, and the token is its czxid",
	FirstInQueue:       "at a grant, no earlier contender is in the queue",
	PermitsWithinLimit: "at a grant of permits, those of all earlier contenders and its own are within the limit",
	AllOrNothing:       "a request for several locks is granted all or none, its hold ends with the first loss, and a failed one leaves no node",
	LivingNode:         "at a grant, its node exists",
	FreshGrant:         "at a grant, the session was proved to live recently",
	RisingTokens:       "tokens rise from grant to grant",
	NotifiedFirst:      "a holder that loses its lock is notified before another client is granted it",
	NotifiedAtAll:      "a holder whose node is gone is notified within 3T/4",
	FencedRegister:     "a register that checks tokens accepts no stale write, and rejects no other",
	BareRegister:       "a holder that has not been notified sends no stale write",
	KeptLease:          "an acknowledged lease ends by its release, or after its TTL without a renewal, and not before its validity",
	LeaseRecord:        "the record of a lease is written by the rules for its kind",
	TrueRelease:        "a release that returns no error has deleted the node, and a grant is released only by its contender",
	HeldState:          "a write to ZooKeeper under a grant is committed while the node of the grant exists",
	EpochOrder:         "epochs are numbered 1, 2, 3, and every write is in the newest one",
	TrueAnswer:         "the answer to a write to ZooKeeper is true",
	TrueMembership:     "a member that is stated to be registered has a node of its own session",
	TrueListing:        "a listing of a group names each member once, and exactly those that existed at its revision",
	TickOnce:           "a tick of a schedule is run at most once, after its leader has stored it",
	CrashOrClean:       "after a holder that did not release, a lock is granted when its delay has passed and the holder was fenced",
	TrueLeader:         "an observer is shown each leader with what it has published, and no former leader or value after a later one",
	OpenBarrier:        "a barrier is passed only when it is not set",
	FullRound:          "a round of a double barrier is entered by as many members as it has, when all are there, one round after the other",
	WholeRound:         "a round of a double barrier is left when all its members leave",
	OwnDelete:          "no session deletes the node of another one",
	NothingLeft:        "at the end no contender node is left",
	Linearizable:       "porcupine finds an order in which one lock and one register would have done the same",
	SoleHolder:         "no running holder believes that it holds a lock that was granted to another client",
}

// By states what counts as one test of a rule: an occasion on which a faulty implementation would have broken it.
var By = map[Rule]string{
	OwnNode:            "grants",
	FirstInQueue:       "grants to contenders that had joined behind another",
	PermitsWithinLimit: "grants of permits",
	AllOrNothing:       "requests for several locks that failed, and holds of several locks that lost one",
	LivingNode:         "waiters whose node was deleted before a grant, by an operator or at the session timeout",
	FreshGrant:         "grants to contenders that were partitioned or paused while they waited",
	RisingTokens:       "grants that follow another of the same path",
	NotifiedFirst:      "running holders whose session expired, or whose lock was granted to another client",
	NotifiedAtAll:      "holders whose node was deleted by an operator or by the session timeout",
	FencedRegister:     "holders that sent a stale write",
	BareRegister:       "running holders that lost the lock to another client",
	KeptLease:          "leases that ended without a release",
	LeaseRecord:        "versions of the records of leases that state whether the lease is held",
	TrueRelease:        "releases that returned no error",
	HeldState:          "writes to the ensemble under a grant",
	EpochOrder:         "claims of an epoch",
	TrueAnswer:         "answers of the ensemble to writes",
	TrueMembership:     "statements that a member is registered",
	TrueListing:        "listings of a group",
	TickOnce:           "ticks that were stored",
	CrashOrClean:       "grants after a holder that did not release, where there is a lock-delay",
	TrueLeader:         "leaders that an observer was shown",
	OpenBarrier:        "barriers that were passed",
	FullRound:          "entries into rounds of double barriers",
	WholeRound:         "members that left a round of a double barrier",
	OwnDelete:          "nodes that were deleted on request",
	NothingLeft:        "nodes that their contender did not delete itself",
	Linearizable:       "grants",
	SoleHolder:         "running holders that lost the lock to another client",
}

// Tested counts how often a history tests each rule: see By. A history without findings is no evidence for a rule that it
// never tests.
func Tested(events []history.Event) map[Rule]int {
	tests := make(map[Rule]int, len(By))
	for rule := range By {
		tests[rule] = 0
	}
	t, _ := newTimeline(events)
	if t == nil {
		return tests
	}
	tests[OwnNode], tests[Linearizable] = len(t.holds), len(t.holds)
	granted := map[*node]*hold{}
	for _, h := range t.holds {
		if h.node != nil {
			granted[h.node] = h
			if h.node.weight() > 0 {
				tests[PermitsWithinLimit]++
			}
		}
		t.countTests(tests, h)
	}
	t.countNodeTests(tests, granted)
	tests[AllOrNothing] = t.countTogether()
	tests[FencedRegister] = len(t.staleWriters())
	for _, e := range t.members {
		if e.Kind == history.Registered {
			tests[TrueMembership]++
		} else {
			tests[TrueListing]++
		}
	}
	for _, h := range t.holds {
		if next := t.takenOver(h); next != nil {
			tests[CrashOrClean]++
		}
	}
	for _, e := range t.ticks {
		if e.Kind == history.Stored {
			tests[TickOnce]++
		}
	}
	tests[TrueLeader] = len(t.shown)
	for _, e := range t.barriers {
		if rule, is := map[history.Kind]Rule{history.Passed: OpenBarrier, history.Entered: FullRound, history.Left: WholeRound}[e.Kind]; is {
			tests[rule]++
		}
	}
	for _, e := range t.state {
		switch e.Kind {
		case history.Wrote, history.Proclaimed:
			tests[HeldState]++
		case history.Claimed:
			tests[EpochOrder]++
		case history.Answered:
			tests[TrueAnswer]++
		default:
		}
	}
	return tests
}

// countTests counts the rules that one grant and its end test.
func (t *timeline) countTests(tests map[Rule]int, h *hold) {
	if h.index > 0 {
		tests[RisingTokens]++
	}
	if h.node != nil && t.joinedBehind(h.node, h.granted.Path) {
		tests[FirstInQueue]++
	}
	disturbed := func(p interval) bool { return p.from < h.granted.At && p.to > h.asked.At }
	if h.isLease() && h.node.deleted.Kind != "" && !h.releasedBefore(h.node.gone()) {
		tests[KeptLease]++
	}
	if h.granted.Deadline != 0 && !h.isLease() && (slices.ContainsFunc(h.partitions, disturbed) || slices.ContainsFunc(h.pauses, disturbed)) {
		tests[FreshGrant]++
	}
	if h.node != nil && h.released.Kind != "" && h.released.Error == "" {
		tests[TrueRelease]++
	}
	if h.lostNode(history.ByTimeout) || h.lostNode(history.ByOperator) {
		tests[NotifiedAtAll]++
	}
	switch toAnother := t.lostToAnother(h); {
	case toAnother:
		tests[BareRegister]++
		tests[SoleHolder]++
		tests[NotifiedFirst]++
	case h.lostNode(history.ByTimeout) && !h.unscheduled(t, h.node.gone()):
		tests[NotifiedFirst]++
	}
}

// lostNode reports whether a holder that had not crashed lost its node for a cause before it released the lock.
func (h *hold) lostNode(cause history.Cause) bool {
	if h.node == nil || h.node.deleted.Cause != cause || h.crashed && h.crashedAt <= h.node.gone() {
		return false
	}
	return !h.endedByHolder() || h.believedUntil() > h.node.gone()
}

// lostToAnother reports whether a running holder lost its lock, other than to an operator, and another client was granted it
// next.
func (t *timeline) lostToAnother(h *hold) bool {
	next, _ := t.following(h)
	if next.Kind == "" || t.acquiredAgain(h, next) || h.endedByHolder() && h.believedUntil() <= next.At || h.crashed && h.crashedAt <= next.At {
		return false
	}
	if h.node != nil && (h.node.deleted.Cause == history.ByOperator || h.node.deleted.Cause == history.ByRequest) {
		return false // its own client deleted it, after its deadline
	}
	return !h.unscheduled(t, next.At)
}

// acquiredAgain reports whether the next grant is the holder's own contender's, which requested it after it had lost the lock.
func (t *timeline) acquiredAgain(h *hold, next history.Event) bool {
	return next.Contender == h.granted.Contender && t.asked(next).At >= h.believedUntil()
}

// joinedBehind reports whether an earlier node of the path existed when a node was created.
func (t *timeline) joinedBehind(n *node, path string) bool {
	for _, earlier := range slices.Backward(t.contenders[path][:t.position(n, path)]) {
		if earlier.deleted.Kind == "" || earlier.deleted.Zxid > n.created.Zxid {
			return true
		}
		if n.created.At-earlier.created.At > t.run.Timeout {
			return false // one that waits longer is counted for the nodes directly behind it
		}
	}
	return false
}

// position returns how many nodes of a path were created before n.
func (t *timeline) position(n *node, path string) int {
	i, _ := slices.BinarySearchFunc(t.contenders[path], n, func(a, b *node) int { return cmp.Compare(a.created.Zxid, b.created.Zxid) })
	return i
}

// countNodeTests counts the rules that nodes test which were not granted or not released.
func (t *timeline) countNodeTests(tests map[Rule]int, granted map[*node]*hold) {
	of := map[history.ID]string{} // contenders by their sessions, as far as grants state them
	for _, h := range t.holds {
		if h.granted.Session != 0 {
			of[h.granted.Session] = h.granted.Contender
		}
	}
	for _, n := range t.nodes {
		if !t.isOwned(n) {
			continue
		}
		if n.deleted.Cause == history.ByRequest && n.created.Lease == 0 {
			tests[OwnDelete]++
		}
		if t.statesHeld {
			tests[LeaseRecord] += len(n.renewed)
		}
		h := granted[n]
		if h == nil || !h.endedByHolder() {
			tests[NothingLeft]++
		}
		contender, known := of[n.created.Session]
		died, dead := t.crashed[contender]
		if h == nil && known && n.deleted.Cause != "" && n.deleted.Cause != history.ByRequest && (!dead || died > n.deleted.At) {
			tests[LivingNode]++
		}
	}
}
