// SPDX-License-Identifier: Apache-2.0

package check

import "github.com/lockkeeper/lockkeeper/proof/history"

// WholeRound: a contender leaves a round of a double barrier only after all other members have begun to leave. Excused:
// members whose node was deleted.
var WholeRound = register(definition{
	name:    "whole-round",
	meaning: "a round of a double barrier is left when all its members leave",
	counts:  "members that left a round of a double barrier",
	judge: func(t *timeline, found report) {
		stays, rounds := t.stays(), map[string][]*stay{}
		for _, s := range stays {
			rounds[s.round()] = append(rounds[s.round()], s)
		}
		for _, s := range stays {
			for _, other := range rounds[s.round()] {
				if s.left.Kind != "" && other != s && t.inAt(other, s.left) {
					found("left while another member was in the round", other.entered, s.left)
				}
			}
		}
	},
	tests: perEvent(history.Left),
})
