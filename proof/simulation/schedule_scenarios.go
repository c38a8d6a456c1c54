// SPDX-License-Identifier: Apache-2.0

package simulation

import "time"

// ScheduleScenarios contains the scripts in which a, b and c are replicas that run the activations of one schedule. Each runs with
// every cut, like Scenarios. At the end, b must run an activation.
var ScheduleScenarios = []Scenario{
	{"replicas follow one another", replicas(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].runActivations(w.fraction(2), 0) },
			func() { p["b"].runActivations(w.fraction(1), 0) },
			func() { p["c"].runActivations(w.fraction(1), 0) },
		)
	})},
	{"a run takes longer than the interval, and the leader stops during it", replicas(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].runActivations(w.fraction(1), time.Duration(interval)*5/4) },
			func() { p["b"].runActivations(2*w.opts.Timeout, 0) },
		)
	})},
	{"the leader is killed", replicas(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].runActivations(2*w.opts.Timeout, 0) },
			func() { p["b"].runActivations(2*w.opts.Timeout, 0) },
			func() { time.Sleep(w.fraction(3)); w.must(p["a"].inject("crash")) },
		)
	})},
	{"the leader's session expires", replicas(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].runActivations(2*w.opts.Timeout, 0) },
			func() { p["b"].runActivations(w.opts.Timeout, 0) },
			func() { time.Sleep(w.fraction(3)); w.must(p["a"].inject("expire")) },
		)
	})},
	{"the leader is paused past its session", replicas(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].runActivations(4*w.opts.Timeout, 0) },
			func() { p["b"].runActivations(4*w.opts.Timeout, 0) },
			func() {
				time.Sleep(w.fraction(3))
				w.must(p["a"].inject("pause"))
				time.Sleep(2 * w.opts.Timeout)
				w.must(p["a"].inject("wake"))
			},
		)
	})},
	{"an operator deletes the leader's node", replicas(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].runActivations(2*w.opts.Timeout, 0) },
			func() { p["b"].runActivations(2*w.opts.Timeout, 0) },
			func() { time.Sleep(w.fraction(3)); _ = p["a"].inject("delete " + lockPath) }, // it may have none after a cut
		)
	})},
}

// replicas returns a script that runs with processes a, b and c.
func replicas(script func(w *World, p map[string]*Process)) func(*World) {
	return func(w *World) {
		p := w.connect("a", "b", "c")
		for _, name := range []string{"a", "b", "c"} {
			if p[name].client == nil {
				return
			}
		}
		script(w, p)
		p["b"].mustRunActivation(3 * w.opts.Timeout)
	}
}
