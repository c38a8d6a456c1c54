// SPDX-License-Identifier: Apache-2.0

package simulation

import "time"

// AssignScenarios contains the scripts in which a, b and c are members that divide three partitions. Each runs with every cut, like
// Scenarios. At the end, b must own all partitions.
var AssignScenarios = []Scenario{
	{"members join and leave", members(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].ownPartitions(w.fraction(1), 0) },
			func() { time.Sleep(w.fraction(4)); p["b"].ownPartitions(w.fraction(1), 0) },
			func() { time.Sleep(w.fraction(2)); p["c"].ownPartitions(w.fraction(2), 0) },
		)
	})},
	{"partitions move from work that stops slowly", members(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].ownPartitions(w.fraction(1), w.fraction(2)) },
			func() { time.Sleep(w.fraction(4)); p["b"].ownPartitions(w.fraction(1), w.fraction(2)) },
		)
	})},
	{"an operator overwrites the records of members", members(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].ownPartitions(w.fraction(1), w.fraction(8)) },
			func() { p["b"].ownPartitions(w.fraction(1), 0) },
			func() { time.Sleep(w.fraction(4)); w.scribble(w.fraction(2), "a", "b") },
		)
	})},
	{"the leader of members is killed", members(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].ownPartitions(2*w.opts.Timeout, 0) },
			func() { p["b"].ownPartitions(2*w.opts.Timeout, 0) },
			func() { time.Sleep(w.fraction(2)); w.must(p["a"].inject("crash")) },
		)
	})},
	{"the session of a member with partitions expires", members(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].ownPartitions(w.opts.Timeout, w.fraction(8)) },
			func() { p["b"].ownPartitions(w.opts.Timeout, 0) },
			func() { time.Sleep(w.fraction(2)); w.must(p["a"].inject("expire")) },
		)
	})},
	{"the leader of members is paused past its session", members(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].ownPartitions(4*w.opts.Timeout, 0) },
			func() { p["b"].ownPartitions(4*w.opts.Timeout, 0) },
			func() {
				time.Sleep(w.fraction(2))
				w.must(p["a"].inject("pause"))
				time.Sleep(2 * w.opts.Timeout)
				w.must(p["a"].inject("wake"))
			},
		)
	})},
	// The leader is about to write, and is not notified before.
	{"an operator deletes the leader's node when a member has joined", members(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].ownPartitions(2*w.opts.Timeout, 0) },
			func() { p["b"].ownPartitions(2*w.opts.Timeout, 0) },
			func() { time.Sleep(w.fraction(2)); p["c"].ownPartitions(w.opts.Timeout, 0) },
			func() {
				time.Sleep(w.fraction(2))
				w.must(p["a"].inject("hold to-client"))
				_ = p["a"].inject("delete " + assignPath + "/leader") // it may have none after a cut
				time.Sleep(w.fraction(16))
				w.must(p["a"].inject("release"))
			},
		)
	})},
}

// members returns a script that runs with processes a, b and c.
func members(script func(w *World, p map[string]*Process)) func(*World) {
	return func(w *World) {
		p := w.connect("a", "b", "c")
		for _, name := range []string{"a", "b", "c"} {
			if p[name].client == nil {
				return
			}
		}
		script(w, p)
		p["b"].mustOwnAll(6 * w.opts.Timeout)
	}
}
