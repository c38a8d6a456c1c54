// SPDX-License-Identifier: Apache-2.0

package check

import "github.com/lockkeeper/lockkeeper/proof/history"

// ActivationOnce: an activation of a schedule is stored at most once, by a leader whose node exists, and later than the activations stored
// before; it is run at most once, after the same leader has stored it. Nothing is excused, not even a pause.
var ActivationOnce = register(definition{
	name:    "activation-once",
	meaning: "an activation of a schedule is run at most once, after its leader has stored it",
	counts:  "activations that were stored",
	judge:   activationOnce,
	tests:   perEvent(history.Stored),
})

func activationOnce(t *timeline, found report) {
	byTime, newest := map[string]history.Event{}, map[string]history.Event{}
	for _, e := range t.inCommitOrder(history.Stored) {
		if last := newest[e.Path]; last.Kind != "" && e.Text <= last.Text {
			found("an activation was stored again, or after a later one", last, e)
		}
		newest[e.Path], byTime[e.Path+" "+e.Text] = e, e
		if n, held := t.holder(e.Token, e.Zxid, e.Path); n == nil {
			found("an activation was stored by a leader whose node did not exist", e)
		} else if !held {
			found("an activation was stored by a leader whose node did not exist", n.created, n.deleted, e)
		}
	}
	ran := map[string]history.Event{}
	for _, e := range t.of(history.Ran) {
		activation := e.Path + " " + e.Text
		if before := ran[activation]; before.Kind != "" {
			found("an activation was run twice", before, e)
		}
		ran[activation] = e
		if s := byTime[activation]; s.Kind == "" || s.Token != e.Token || s.At > e.At {
			found("an activation was run before its leader had stored it", e)
		}
	}
}
