// SPDX-License-Identifier: Apache-2.0

package check

import "github.com/lockkeeper/lockkeeper/proof/history"

// FencedRegister: a register that checks tokens never accepts a token older than one that it has accepted, and rejects
// no other. The access of a reader makes no token the newest.
var FencedRegister = register(definition{
	name:    "fenced-register",
	meaning: "a register that checks tokens accepts no stale write, and rejects no other",
	counts:  "holders that sent a stale write",
	judge: eachWrite(true, func(_ *timeline, w write, newer history.Event, certain bool, found report) {
		switch {
		case w.wrote.Accepted && certain:
			found("a stale write was accepted", newer, w.wrote)
		case !w.wrote.Accepted && newer.Kind == "":
			found("a write was rejected although no newer one was accepted", w.wrote)
		}
	}),
	tests: func(t *timeline) int { return len(t.staleWriters()) },
})

// eachWrite judges one write after the other to registers that check tokens, or to those that do not, with what newer
// returns. A write is stale if a write with a greater token was accepted before it began. The order of overlapping writes is
// unknown.
func eachWrite(fenced bool, judge func(t *timeline, w write, newer history.Event, certain bool, found report)) func(*timeline, report) {
	return func(t *timeline, found report) {
		for _, writes := range t.writes {
			if writes[0].wrote.Fenced != fenced {
				continue
			}
			for _, w := range writes {
				newer, certain := newer(writes, w)
				judge(t, w, newer, certain, found)
			}
		}
	}
}

// newer returns an accepted write with a greater token that may have come before w. certain reports that it did.
func newer(writes []write, w write) (found history.Event, certain bool) {
	for _, other := range writes {
		if !other.wrote.Accepted || other.wrote.Shared || other.wrote.Token <= w.wrote.Token {
			continue
		}
		if other.wrote.Line < w.started {
			return other.wrote, true
		}
		if other.started < w.wrote.Line {
			found = other.wrote
		}
	}
	return found, false
}
