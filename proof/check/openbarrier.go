// SPDX-License-Identifier: Apache-2.0

package check

import (
	"path"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// OpenBarrier: a contender that passes a barrier waited for it when its node did not exist, in the ensemble's commit
// order. Nothing is excused.
var OpenBarrier = register(definition{
	name:    "open-barrier",
	meaning: "a barrier is passed only when it is not set",
	counts:  "barriers that were passed",
	judge:   openBarriers,
	tests:   perEvent(history.Passed),
})

func openBarriers(t *timeline, found report) {
	began := map[string]history.Event{} // by contender and path
	for _, e := range t.of(history.Waiting, history.Passed) {
		key := e.Contender + " " + e.Path
		if e.Kind == history.Waiting {
			began[key] = e
			continue
		}
		for _, n := range t.children[path.Dir(e.Path)] {
			if n.created.Node == e.Path && n.created.At+t.resolution() < began[key].At && n.gone() > e.At+t.resolution() {
				found("a barrier was passed that was set all the time", n.created, began[key], e)
			}
		}
	}
}
