// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// FullRound: a contender enters a round of a double barrier only after as many nodes of members as the barrier's size
// existed at the same time. No more members than that enter it, and none while a member of another round is in that.
// Excused: members whose node was deleted.
var FullRound = register(definition{
	name:    "full-round",
	meaning: "a round of a double barrier is entered by as many members as it has, when all are there, one round after the other",
	counts:  "entries into rounds of double barriers",
	judge:   fullRounds,
	tests:   perEvent(history.Entered),
})

func fullRounds(t *timeline, found report) {
	members := map[string]int{} // by round
	var in []*stay              // of members that have not left, in any round
	for _, s := range t.stays() {
		e := s.entered
		if most := t.mostAt(s.round(), e.At); most < e.Limit {
			found(fmt.Sprintf("entered when at most %d members of %d had been there at the same time", most, e.Limit), e)
		}
		if members[s.round()]++; members[s.round()] > e.Limit {
			found(fmt.Sprintf("member %d of a round of %d", members[s.round()], e.Limit), e)
		}
		in = slices.DeleteFunc(in, func(other *stay) bool { return !t.inAt(other, e) })
		for _, other := range in {
			if other.entered.Path == e.Path && other.round() != s.round() && t.inAt(s, e) {
				found("entered while a member of another round was in it", other.entered, e)
			}
		}
		in = append(in, s)
	}
}

// mostAt returns the greatest number of members that had nodes of a round at the same time, until an instant.
func (t *timeline) mostAt(round string, at history.Instant) (most int) {
	for _, last := range t.children[round] {
		if last.created.At > at+t.resolution() {
			continue
		}
		there := 0
		for _, n := range t.children[round] {
			if n.created.Zxid <= last.created.Zxid && (n.deleted.Kind == "" || n.deleted.Zxid > last.created.Zxid) {
				there++
			}
		}
		most = max(most, there)
	}
	return most
}
