// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"sync/atomic"
	"time"
)

// HandOverScenarios contains the scripts in which a leads, and b, d and c wait in this order. In most of them a hands its term
// over to c in the middle of it, or c has a priority. Each runs with every cut, like Scenarios. Every candidate leads in the
// end, unless the script ends it.
var HandOverScenarios = []Scenario{
	{"a leader hands over to the last candidate", handingOver(candidates{})},
	{"a leader hands over to the last candidate, and Run campaigns again", handingOver(candidates{run: true})},
	{"the target is killed before the term ends", handingOver(candidates{ends: "c", fault: "crash"})},
	{"the target vanishes before the term ends", handingOver(candidates{ends: "c", fault: "vanish"})},
	{"the target gives up before the term ends", handingOver(candidates{givesUp: true})},
	{"the target's session expires before the term ends", handingOver(candidates{on: "c", fault: "expire"})},
	{"the target is partitioned while the term ends", handingOver(candidates{on: "c", fault: "hold both", heal: "release"})},
	{"the target is paused past its session", handingOver(candidates{on: "c", fault: "pause", heal: "wake"})},
	{"a candidate ahead is killed before the term ends", handingOver(candidates{ends: "b", fault: "crash"})},
	{"a candidate ahead is partitioned while the term ends", handingOver(candidates{on: "b", fault: "hold both", heal: "release"})},
	{"the session of a candidate ahead expires", handingOver(candidates{on: "b", fault: "expire"})},
	{"a leader is killed after it has handed over", handingOver(candidates{ends: "a", fault: "crash"})},
	{"the session of a leader expires after it has handed over", handingOver(candidates{on: "a", fault: "expire"})},
	{"a leader is partitioned after it has handed over", handingOver(candidates{on: "a", fault: "hold both", heal: "release"})},
	{"an operator deletes the target's node", handingOver(candidates{on: "c", fault: "delete " + lockPath})},

	{"the sequence numbers run out before candidates yield", func(w *World) {
		w.must(w.ensemble.Create(lockPath, nil))
		w.must(w.inject("plant-counter " + lockPath + " 2147483646"))
		handingOver(candidates{})(w)
	}},

	{"a candidate has a priority", prioritised(candidates{})},
	{"the sequence numbers run out, and a candidate has a priority", func(w *World) {
		w.must(w.ensemble.Create(lockPath, nil))
		w.must(w.inject("plant-counter " + lockPath + " 2147483644"))
		prioritised(candidates{})(w)
	}},
	{"a candidate with a priority is killed before the term ends", prioritised(candidates{ends: "c", fault: "crash"})},
	{"a candidate with a priority vanishes before the term ends", prioritised(candidates{ends: "c", fault: "vanish"})},
	{"the session of a candidate with a priority expires", prioritised(candidates{on: "c", fault: "expire"})},
	{"a candidate with a priority is partitioned while the term ends", prioritised(candidates{on: "c", fault: "hold both", heal: "release"})},
	{"a candidate with a priority is paused past its session", prioritised(candidates{on: "c", fault: "pause", heal: "wake"})},
	{"a candidate of a lower priority is partitioned while the term ends", prioritised(candidates{on: "b", fault: "hold both", heal: "release"})},
	{"a candidate of a lower priority is killed before the term ends", prioritised(candidates{ends: "b", fault: "crash"})},
	{"a candidate with a priority vanishes, and one behind it has a higher one", func(w *World) {
		p := w.connect("a", "b", "d", "c")
		p["d"].succession.priority, p["c"].succession.priority = 3, 5
		w.elect(p, candidates{ends: "d", fault: "vanish"})
	}},
	{"a leader hands over to a candidate without a priority", func(w *World) {
		p := w.connect("a", "b", "d", "c")
		p["a"].succession = succession{successor: "d", after: w.firstTerm() - w.fraction(4)}
		p["c"].succession.priority, p["b"].succession.priority = 7, 3
		w.elect(p, candidates{})
	}},
}

// candidates are how a script disturbs its candidates, T/8 before the end of the first term.
type candidates struct {
	run     bool   // a's work runs under Run
	givesUp bool   // c gives up
	on      string // the process with the fault
	ends    string // the same, if the process does not lead after it
	fault   string
	heal    string // ends the fault after 3T/2
}

// handingOver returns a script in which a hands its first term over to c.
func handingOver(how candidates) func(*World) {
	return func(w *World) {
		p := w.connect("a", "b", "d", "c")
		p["a"].succession = succession{successor: "c", after: w.firstTerm() - w.fraction(4)}
		w.elect(p, how)
	}
}

// prioritised returns a script in which c has a priority. While it is dead, and its session has not expired, it does not keep
// the election from a leader.
func prioritised(how candidates) func(*World) {
	return func(w *World) {
		p := w.connect("a", "b", "d", "c")
		p["c"].succession.priority = 5
		w.elect(p, how)
	}
}

// firstTerm returns how long a leads: T/2 longer than the others need to join, also where servers lag.
func (w *World) firstTerm() time.Duration { return w.fraction(2) + 4*(w.fraction(32)+4*w.lag) }

// elect has a lead for the first term, and then the others for a moment each.
func (w *World) elect(p map[string]*Process, how candidates) {
	for _, name := range []string{"a", "b", "c", "d"} {
		if p[name].client == nil {
			return
		}
	}
	moment := w.fraction(16)
	stand := func(name string) func() { return func() { p[name].stand(moment) } }
	began := time.Now()
	disturbed := began.Add(w.firstTerm() - w.fraction(8))
	var ledD, ledB time.Time
	var termEnded atomic.Pointer[time.Time] // a's, which a cut can delay
	w.inOrder(
		func() {
			if how.run {
				p["a"].must(p["a"].do(Operation{"run", lockPath, w.firstTerm(), 2*w.firstTerm() + w.opts.Timeout}))
				return
			}
			p["a"].stand(w.firstTerm())
			now := time.Now()
			termEnded.Store(&now)
		},
		func() {
			stand("b")()
			ledB = time.Now()
			if how.fault != "vanish" || p[how.ends].succession.priority == 0 {
				return
			}
			waits := disturbed.Add(w.fraction(8)) // as planned
			if ended := termEnded.Load(); ended != nil && ended.After(waits) {
				waits = *ended
			}
			// The session of the dead candidate lasts for 2T/3 at least.
			if took := time.Since(waits); took > w.fraction(2)-w.fraction(8)+2*w.lag {
				w.problemf("b led %v after the former term: a dead candidate of a higher priority has delayed it", took)
			}
		},
		func() { stand("d")(); ledD = time.Now() },
		func() {
			if how.givesUp {
				p["c"].mustFail(p["c"].do(Operation{"campaign", lockPath, moment, time.Until(disturbed)}), context.DeadlineExceeded)
				return
			}
			stand("c")()
		},
		func() {
			if how.fault == "" {
				return
			}
			time.Sleep(time.Until(disturbed))
			victim := p[how.on+how.ends]
			if err := victim.inject(how.fault); err != nil {
				return // it may have no node after a cut
			}
			if how.heal != "" {
				time.Sleep(w.fraction(1) + w.fraction(2))
				w.must(victim.inject(how.heal))
			}
		},
	)
	if how.givesUp && (w.cut.Victim == "" || w.cut.Victim == "a") && ledD.Before(ledB) {
		w.problemf("d led before b, which was ahead of it, although the target had left the queue")
	}
}
