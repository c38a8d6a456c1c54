// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"time"
)

// BarrierScenarios contains the scripts of barriers and double barriers. Each runs with every cut, like Scenarios. At the end,
// b and c must enter and leave a round.
var BarrierScenarios = []Scenario{
	{"a barrier is set, waited for and removed, twice", atBarriers(func(w *World, p map[string]*Process) {
		for range 2 {
			p["a"].mustSet()
			concurrently(
				p["b"].mustPass,
				p["c"].mustPass,
				func() { time.Sleep(w.fraction(4)); p["a"].mustRemove() },
			)
		}
	})},
	{"a barrier is removed and set again immediately", atBarriers(func(w *World, p map[string]*Process) {
		p["a"].mustSet()
		w.inOrder(
			p["c"].mustPass,
			func() { p["a"].mustRemove(); p["a"].mustSet() },
		)
		concurrently(p["c"].mustPass, p["b"].mustPass, func() { time.Sleep(w.fraction(8)); p["b"].mustRemove() })
	})},
	{"two processes set and remove a barrier at the same time", atBarriers(func(w *World, p map[string]*Process) {
		p["a"].mustSet()
		concurrently(
			func() { p["c"].mustPass(); p["c"].mustPass() },
			func() { p["a"].mustRemove(); p["a"].mustSet(); time.Sleep(w.fraction(4)); p["a"].mustRemove() },
			func() { p["b"].mustSet(); p["b"].mustRemove() },
		)
	})},
	{"the session of a process that waits for a barrier expires", atBarriers(func(w *World, p map[string]*Process) {
		p["a"].mustSet()
		w.inOrder(
			p["b"].mustPass,
			func() { w.must(p["b"].inject("expire")); time.Sleep(w.fraction(2)); p["a"].mustRemove() },
		)
	})},
	{"two members enter and leave, twice", atBarriers(func(w *World, p map[string]*Process) {
		twice := func(p *Process, hold time.Duration) func() {
			return func() { p.mustRound(2, hold); p.mustRound(2, 0) }
		}
		concurrently(twice(p["a"], w.fraction(8)), twice(p["b"], 0))
	})},
	{"a third process waits for the next round", atBarriers(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].mustRound(2, w.fraction(2)) },
			func() { p["b"].mustRound(2, 0); p["b"].mustRound(2, 0) },
			func() { p["c"].mustRound(2, w.fraction(8)) },
		)
	})},
	{"enough members wait for the next round while one is in progress", atBarriers(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].mustRound(2, w.fraction(1)) },
			func() { p["b"].mustRound(2, 0) },
			func() { p["c"].mustRound(2, 0) },
			func() { p["c"].mustRound(2, 0) },
		)
	})},
	{"a process gives up, and two others enter", atBarriers(func(w *World, p map[string]*Process) {
		p["a"].mustFail(p["a"].round(2, 0, w.fraction(4)), context.DeadlineExceeded)
		concurrently(func() { p["b"].tryRound(2, 0) }, func() { p["c"].tryRound(2, 0) })
	})},
	{"the session of a member expires before the round and in it", atBarriers(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].mustRound(2, w.fraction(1)) },
			func() { w.must(p["a"].inject("expire")); p["b"].mustRound(2, w.fraction(1)) },
			func() { time.Sleep(w.fraction(2)); w.must(p["a"].inject("expire")) },
		)
	})},
	{"a member is killed before the round", atBarriers(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].mustRound(3, 0) },
			func() { _ = p["b"].round(3, 0, 3*w.opts.Timeout) }, // with a, if it is fast enough
			func() { w.must(p["a"].inject("crash")); _ = p["c"].round(3, 0, 3*w.opts.Timeout) },
		)
	})},
	{"a member is killed in the round", atBarriers(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].mustRound(2, w.fraction(1)) },
			func() { p["b"].mustRound(2, 0) },
			func() { time.Sleep(w.fraction(8)); w.must(p["a"].inject("crash")) },
		)
	})},
	{"a member is paused past its session, in the round", atBarriers(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].mustRound(2, w.fraction(4)) },
			func() { p["b"].mustRound(2, 0); p["b"].mustRound(2, 0) },
			func() {
				time.Sleep(w.fraction(8))
				w.must(p["a"].inject("pause"))
				p["c"].mustRound(2, 0)
				w.must(p["a"].inject("wake"))
			},
		)
	})},
	{"all servers are down until the members give up their sessions, which still exist", atBarriers(func(w *World, p map[string]*Process) {
		concurrently(
			func() { p["a"].tryRound(2, w.opts.Timeout) },
			func() { p["b"].tryRound(2, w.opts.Timeout) },
			func() {
				time.Sleep(w.fraction(4))
				for i := range w.opts.Servers {
					w.must(w.inject(fmt.Sprintf("stop %d", i)))
				}
				time.Sleep(2*w.opts.Timeout + w.fraction(4))
				for i := range w.opts.Servers {
					w.must(w.inject(fmt.Sprintf("start %d", i)))
				}
			},
		)
	})},
}

// atBarriers returns a script that runs with processes a, b and c.
func atBarriers(script func(w *World, p map[string]*Process)) func(*World) {
	return func(w *World) {
		p := w.connect("a", "b", "c")
		for _, name := range []string{"a", "b", "c"} {
			if p[name].client == nil {
				return
			}
		}
		script(w, p)
		concurrently(func() { p["b"].mustRound(2, 0) }, func() { p["c"].mustRound(2, 0) })
	}
}
