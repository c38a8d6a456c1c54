// SPDX-License-Identifier: Apache-2.0

package check

import "github.com/lockkeeper/lockkeeper/proof/history"

// TickOnce: a tick of a schedule is stored at most once, by a leader whose node exists, and later than the ticks stored
// before; it is run at most once, after the same leader has stored it. Nothing is excused, not even a pause.
var TickOnce = register(definition{
	name:    "tick-once",
	meaning: "a tick of a schedule is run at most once, after its leader has stored it",
	counts:  "ticks that were stored",
	judge:   tickOnce,
	tests:   perEvent(history.Stored),
})

func tickOnce(t *timeline, found report) {
	byTick, newest := map[string]history.Event{}, map[string]history.Event{}
	for _, e := range t.inCommitOrder(history.Stored) {
		if last := newest[e.Path]; last.Kind != "" && e.Text <= last.Text {
			found("a tick was stored again, or after a later one", last, e)
		}
		newest[e.Path], byTick[e.Path+" "+e.Text] = e, e
		if n, held := t.holder(e.Token, e.Zxid, e.Path); n == nil {
			found("a tick was stored by a leader whose node did not exist", e)
		} else if !held {
			found("a tick was stored by a leader whose node did not exist", n.created, n.deleted, e)
		}
	}
	ran := map[string]history.Event{}
	for _, e := range t.of(history.Ran) {
		tick := e.Path + " " + e.Text
		if before := ran[tick]; before.Kind != "" {
			found("a tick was run twice", before, e)
		}
		ran[tick] = e
		if s := byTick[tick]; s.Kind == "" || s.Token != e.Token || s.At > e.At {
			found("a tick was run before its leader had stored it", e)
		}
	}
}
