// SPDX-License-Identifier: Apache-2.0

package check

import "github.com/lockkeeper/lockkeeper/proof/history"

// OwnedWork: the work of a partition begins when the node of its claim is the first in the queue; its contender does not release
// the claim before the work has returned, and begins no other work for the partition before. Excused: contenders that were paused,
// where the ensemble may have ended the claim in between.
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
		case e.Cause == history.GivenUp, e.Cause == "" && n.deleted.Cause == history.ByRequest && n.gone()+t.resolution() < e.At && !t.pausedBetween(before, e):
			found("a partition was released before its work had returned", n.created, n.deleted, e)
		}
		if delete(running, key); e.Kind == history.Working {
			running[key] = e
		}
	}
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
