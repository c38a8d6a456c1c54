// SPDX-License-Identifier: Apache-2.0

package check

import "github.com/lockkeeper/lockkeeper/proof/history"

// TrueRelease: a release that returns no error has deleted the grant's node before, and both nodes of a slot; and no grant ends as released before its
// contender began to release it.
var TrueRelease = register(definition{
	name:    "true-release",
	meaning: "a release that returns no error has deleted the node, and a grant is released only by its contender",
	counts:  "releases that returned no error",
	judge: eachHold(func(t *timeline, h *hold, found report) {
		if h.notified.Cause == history.GivenUp && (h.releasing.Kind == "" || h.releasing.Line > h.notified.Line) {
			found("released before its contender began to release it", h.granted, h.notified)
		}
		for _, n := range h.nodes() {
			if h.wasReleasedCleanly() && n.gone() > h.released.At+t.resolution() {
				found("a release returned without an error before the node was deleted", h.granted, h.released, n.deleted)
			}
		}
	}),
	tests: perHold(func(_ *timeline, h *hold) bool { return h.wasReleasedCleanly() }),
})

// wasReleasedCleanly reports whether a release of the hold returned no error.
func (h *hold) wasReleasedCleanly() bool {
	return h.node != nil && h.released.Kind != "" && h.released.Error == ""
}
