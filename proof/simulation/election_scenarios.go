// SPDX-License-Identifier: Apache-2.0

package simulation

import "time"

// ElectionScenarios contains the scripts in which a and b are candidates that publish values and check their health, and c
// observes them. Each runs with every cut, like Scenarios.
var ElectionScenarios = []Scenario{
	{"leaders publish values, one after the other", observed(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].must(p["a"].proclaimFor(w.fraction(4))) },
			func() { p["b"].must(p["b"].proclaimFor(w.fraction(4))) },
			func() { p["a"].must(p["a"].proclaimFor(0)) },
		)
	})},
	{"a leader that publishes values is killed", observed(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].must(p["a"].proclaimFor(w.fraction(1))) },
			func() { p["b"].must(p["b"].proclaimFor(w.fraction(4))) },
			func() { time.Sleep(w.fraction(8)); w.must(p["a"].inject("crash")) },
		)
	})},
	{"the session of a leader that publishes values expires", observed(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].must(p["a"].proclaimFor(w.fraction(1))) },
			func() { p["b"].must(p["b"].proclaimFor(w.fraction(4))) },
			func() { time.Sleep(w.fraction(3)); w.must(p["a"].inject("expire")) },
		)
	})},
	{"the observer's session expires", observed(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].must(p["a"].proclaimFor(w.fraction(4))) },
			func() { p["b"].must(p["b"].proclaimFor(w.fraction(2))) },
			func() { time.Sleep(w.fraction(3)); w.must(p["c"].inject("expire")) },
		)
	})},
	{"a leader is paused past its session, and publishes values when it wakes", observed(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].must(p["a"].proclaimFor(w.fraction(1))) },
			func() { p["b"].must(p["b"].proclaimFor(2 * w.opts.Timeout)) },
			func() {
				time.Sleep(w.fraction(8))
				w.must(p["a"].inject("pause"))
				time.Sleep(2 * w.opts.Timeout)
				w.must(p["a"].inject("wake"))
			},
		)
	})},
	{"an operator deletes the node of a leader that publishes values", observed(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].must(p["a"].proclaimFor(w.fraction(1))) },
			func() { p["b"].must(p["b"].proclaimFor(w.fraction(4))) },
			func() { time.Sleep(w.fraction(3)); _ = p["a"].inject("delete " + lockPath) }, // it may have none after a cut
		)
	})},
	{"a leader's health check fails", observed(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].mustEndUnhealthy(failing) },
			func() { p["b"].must(p["b"].proclaimFor(w.fraction(4))) },
		)
	})},
	{"a leader's health check does not answer", observed(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].mustEndUnhealthy(blocked) },
			func() { p["b"].must(p["b"].proclaimFor(w.fraction(4))) },
		)
	})},
	{"the session of a leader expires while its health check fails", observed(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].mustEndUnhealthy(failing) },
			func() { p["b"].must(p["b"].proclaimFor(w.fraction(4))) },
			func() { time.Sleep(sickAfter - w.fraction(64)); w.must(p["a"].inject("expire")) },
		)
	})},
}

// proclaimFor campaigns at lockPath, and publishes values for d.
func (p *Process) proclaimFor(d time.Duration) error {
	return p.do(Operation{"proclaim", lockPath, d, 0})
}

// observed returns a script that runs with processes a, b and c, the last of which observes the election. At the end b must
// lead and be seen.
func observed(script func(w *World, p map[string]*Process)) func(*World) {
	return func(w *World) {
		p := w.connect("a", "b", "c")
		for _, name := range []string{"a", "b", "c"} {
			if p[name].client == nil {
				return
			}
		}
		p["c"].watchLeaders()
		script(w, p)
		p["b"].mustBeSeenBy(p["c"])
	}
}
