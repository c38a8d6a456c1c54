// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// By states what counts as one test of a rule: an occasion on which a faulty implementation would have broken it.
var By = map[Rule]string{
	OwnNode:        "grants",
	FirstInLine:    "grants to contenders that had joined behind another",
	LivingNode:     "waiters whose node was deleted before a grant, by an operator or at the session timeout",
	FreshGrant:     "grants to contenders that were partitioned or paused while they waited",
	RisingTokens:   "grants that follow another of the same path",
	ToldFirst:      "running holders whose session expired, or whose lock was granted to another client",
	ToldAtAll:      "holders whose node was deleted by another than themselves",
	FencedRegister: "holders that sent a stale write",
	BareRegister:   "running holders that lost the lock to another client",
	HeldState:      "writes to the ensemble under a grant",
	EpochOrder:     "claims of an epoch",
	TrueAnswer:     "answers of the ensemble to writes",
	OwnDelete:      "nodes that were deleted on request",
	NothingLeft:    "nodes that their contender did not give back itself",
	Linearizable:   "grants",
	Alone:          "running holders that lost the lock to another client",
}

// Tested counts, for each rule, how often a history put it to the test: see By. A rule that was never tested is not shown by
// a history without findings.
func Tested(events []history.Event) map[Rule]int {
	tests := make(map[Rule]int, len(By))
	for rule := range By {
		tests[rule] = 0
	}
	s, _ := newStory(events)
	if s == nil {
		return tests
	}
	tests[OwnNode], tests[Linearizable] = len(s.holds), len(s.holds)
	granted := map[*node]*hold{}
	for _, h := range s.holds {
		if h.node != nil {
			granted[h.node] = h
		}
		s.countTests(tests, h)
	}
	s.countNodeTests(tests, granted)
	tests[FencedRegister] = len(s.lateWriters())
	for _, e := range s.state {
		switch e.Kind {
		case history.Wrote:
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

// countTests counts what one grant and its end test.
func (s *story) countTests(tests map[Rule]int, h *hold) {
	if h.index > 0 {
		tests[RisingTokens]++
	}
	if h.node != nil && s.joinedBehind(h.node, h.granted.Path) {
		tests[FirstInLine]++
	}
	disturbed := func(p pause) bool { return p.from < h.granted.At && p.to > h.asked.At }
	if h.granted.Deadline != 0 && (slices.ContainsFunc(h.cuts, disturbed) || slices.ContainsFunc(h.pauses, disturbed)) {
		tests[FreshGrant]++
	}
	if h.lostNode(history.ByTimeout) || h.lostNode(history.ByHand) {
		tests[ToldAtAll]++
	}
	switch toAnother := s.lostToAnother(h); {
	case toAnother:
		tests[BareRegister]++
		tests[Alone]++
		tests[ToldFirst]++
	case h.lostNode(history.ByTimeout) && !h.unscheduled(s, h.node.gone()):
		tests[ToldFirst]++
	}
}

// lostNode reports whether a living holder lost its node for a cause before it gave the lock up.
func (h *hold) lostNode(cause history.Cause) bool {
	if h.node == nil || h.node.deleted.Cause != cause || h.dead && h.died <= h.node.gone() {
		return false
	}
	return !h.gaveUp() || h.when() > h.node.gone()
}

// lostToAnother reports whether a running holder lost its lock, not to an operator, and another client was granted it next.
func (s *story) lostToAnother(h *hold) bool {
	next, _ := s.following(h)
	if next.Kind == "" || s.acquiredAgain(h, next) || h.gaveUp() && h.when() <= next.At || h.dead && h.died <= next.At {
		return false
	}
	if h.node != nil && (h.node.deleted.Cause == history.ByHand || h.node.deleted.Cause == history.ByRequest) {
		return false // its own client deleted it, after its deadline
	}
	return !h.unscheduled(s, next.At)
}

// acquiredAgain reports whether the next grant is to the holder's own contender, which asked when it had lost the lock.
func (s *story) acquiredAgain(h *hold, next history.Event) bool {
	return next.Contender == h.granted.Contender && s.asked(next).At >= h.when()
}

// joinedBehind reports whether an earlier node of the path was there when a node was created.
func (s *story) joinedBehind(n *node, path string) bool {
	for _, earlier := range slices.Backward(s.below[path][:s.position(n, path)]) {
		if earlier.deleted.Kind == "" || earlier.deleted.Zxid > n.created.Zxid {
			return true
		}
		if n.created.At-earlier.created.At > s.run.Timeout {
			return false // one that waits for longer than that is counted for those directly behind it
		}
	}
	return false
}

// position is how many nodes of a path were created before one of them.
func (s *story) position(n *node, path string) int {
	i, _ := slices.BinarySearchFunc(s.below[path], n, func(a, b *node) int { return cmp.Compare(a.created.Zxid, b.created.Zxid) })
	return i
}

// countNodeTests counts what nodes test on which no grant stands, or no release.
func (s *story) countNodeTests(tests map[Rule]int, granted map[*node]*hold) {
	of := map[history.ID]string{} // contenders by their sessions, as far as grants tell
	for _, h := range s.holds {
		if h.granted.Session != 0 {
			of[h.granted.Session] = h.granted.Contender
		}
	}
	for _, n := range s.nodes {
		if !isContender(n.created) {
			continue
		}
		if n.deleted.Cause == history.ByRequest {
			tests[OwnDelete]++
		}
		h := granted[n]
		if h == nil || !h.gaveUp() {
			tests[NothingLeft]++
		}
		contender, known := of[n.created.Session]
		died, dead := s.crashed[contender]
		if h == nil && known && n.deleted.Cause != "" && n.deleted.Cause != history.ByRequest && (!dead || died > n.deleted.At) {
			tests[LivingNode]++
		}
	}
}
