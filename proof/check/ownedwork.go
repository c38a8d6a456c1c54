// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// OwnedWork: the work of a partition begins when the node of its claim is the first in the queue; its contender does not release
// the claim before the work has returned, and begins no other work for the partition before. Work whose claim the history does not show as a
// grant returns when its context is done: before the node is gone, as in NotifiedFirst, or within the time of NotifiedAtAll after an operator
// deleted it. Excused: contenders that were paused, where the ensemble may have ended the claim in between, and a node that an operator
// deleted a moment before the work began.
var OwnedWork = register(definition{
	name:    "owned-work",
	meaning: "the work of a partition begins under the first claim of its queue, which is released when the work has returned, and never twice in a process",
	counts:  "calls of work",
	judge:   ownedWork,
	tests:   perEvent(history.Working),
})

func ownedWork(t *timeline, found report) {
	running := map[string]history.Event{} // by contender and path
	for _, e := range t.of(history.Working, history.Worked) {
		key := e.Contender + " " + e.Path
		n, _ := t.holder(e.Token, 0, e.Path)
		before := running[key]
		switch {
		case n == nil:
			found("the work of a partition runs without a claim", e)
		case e.Kind == history.Working && before.Kind != "":
			found("the work of a partition began before the former work had returned", before, e)
		case e.Kind == history.Working:
			for _, ahead := range t.contenders[e.Path] {
				if ahead.created.Zxid < e.Token && ahead.gone() > e.At+t.resolution() {
					found("the work of a partition began behind another contender", ahead.created, n.created, e)
				}
			}
			if n.deleted.Kind != "" && t.workOf(n, e, e).latest(t, n) < e.At-t.resolution() && !t.pausedBetween(n.deleted, e) {
				found("the work of a partition began after the node of its claim was gone", n.created, n.deleted, e)
			}
		case e.Cause == history.GivenUp, e.Cause == "" && n.deleted.Cause == history.ByRequest && n.gone()+t.resolution() < e.At && !t.pausedBetween(n.deleted, e):
			found("a partition was released before its work had returned", n.created, n.deleted, e)
		default:
			t.judgeReturn(n, before, e, found)
		}
		if delete(running, key); e.Kind == history.Working {
			running[key] = e
		}
	}
	for _, key := range slices.Sorted(maps.Keys(running)) { // it had not returned when its contender crashed, or at the end
		working := running[key]
		if n, _ := t.holder(working.Token, 0, working.Path); n != nil {
			t.judgeReturn(n, working, history.Event{At: t.goneAt(working.Contender), Contender: working.Contender}, found)
		}
	}
}

// judgeReturn finds work on a claim that returned too late. Of a claim that the history shows as a grant, the rules of notifications say more.
func (t *timeline) judgeReturn(n *node, working, worked history.Event, found report) {
	if n.hold != nil || n.deleted.Kind == "" {
		return
	}
	h := t.workOf(n, working, worked)
	limit := h.noticedBy(t, n.goneAtLatest(t.run), 0)
	if n.deleted.Cause == history.ByOperator {
		limit = h.latestNotification(t, n.gone())
	}
	if until, paused := h.pausedAt(min(worked.At, limit), t.grace()); worked.At > limit && (!paused || until != never) {
		found(fmt.Sprintf("the work of a partition had not returned by %v after the node of its claim was gone", limit), working, n.created, n.deleted, worked)
	}
}

// workOf returns work on a claim as a hold of it, which lasts until the work returns.
func (t *timeline) workOf(n *node, working, worked history.Event) *hold {
	return &hold{granted: working, notified: worked, node: n, pauses: t.pauses[worked.Contender], run: t.run}
}

// pausedBetween reports whether the contender of two events was paused between them.
func (t *timeline) pausedBetween(from, to history.Event) bool {
	for _, p := range t.pauses[to.Contender] {
		if p.from <= to.At && p.to >= from.At {
			return true
		}
	}
	return false
}
