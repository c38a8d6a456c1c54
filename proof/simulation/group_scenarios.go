// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// GroupScenarios contains the scripts in which a and b are members of a group that c follows. Each runs with every cut, like
// Scenarios.
var GroupScenarios = []Scenario{
	{"a member joins, updates and leaves, twice", withObserver(func(w *World, p map[string]*Process) {
		for range 2 {
			m := p["a"].mustJoin("x", "1")
			m.update("2")
			time.Sleep(w.fraction(4))
			m.leave()
		}
	})},
	{"two members come and go", withObserver(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { m := p["a"].mustJoin("x", "1"); time.Sleep(w.fraction(4)); m.update("2"); m.leave() },
			func() { m := p["b"].mustJoin("y", "1"); time.Sleep(w.fraction(4)); m.update("2"); m.leave() },
		)
	})},
	{"two processes have one id", withObserver(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { m := p["a"].mustJoin("x", "a"); time.Sleep(w.fraction(2)); m.leave() },
			func() { m := p["b"].mustJoin("x", "b"); m.update("b again"); m.leave() },
		)
	})},
	{"a process gives up an id that is taken", withObserver(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { m := p["a"].mustJoin("x", "a"); time.Sleep(w.fraction(1)); m.leave() },
			func() {
				m, err := p["b"].join("x", "b", w.fraction(4))
				p["b"].mustFail(err, context.DeadlineExceeded)
				m.leave()
			},
		)
	})},
	{"a member's session expires", withObserver(func(w *World, p map[string]*Process) {
		m := p["a"].mustJoin("x", "1")
		w.must(p["a"].inject("expire"))
		m.update("2")
		m.awaitRegistered()
		m.leave()
	})},
	{"a member's session expires while another process waits for its id", withObserver(func(w *World, p map[string]*Process) {
		first := p["a"].mustJoin("x", "a")
		w.inOrder(
			func() {
				m := p["b"].mustJoin("x", "b")
				time.Sleep(w.fraction(1))
				m.leave()
			},
			func() {
				w.must(p["a"].inject("expire"))
				first.awaitRegistered() // before the other process, or after it
				first.leave()
			},
		)
	})},
	{"all servers are down until clients give up their sessions, which still exist", withObserver(func(w *World, p map[string]*Process) {
		m := p["a"].mustJoin("x", "1")
		for i := range w.opts.Servers {
			w.must(w.inject(fmt.Sprintf("stop %d", i)))
		}
		time.Sleep(2*w.opts.Timeout + w.fraction(4))
		for i := range w.opts.Servers {
			w.must(w.inject(fmt.Sprintf("start %d", i)))
		}
		time.Sleep(w.fraction(4)) // until the member can be registered
		m.awaitRegistered()
		m.update("2")
		m.leave()
	})},
	{"an operator overwrites a member's metadata, and deletes its node", withObserver(func(w *World, p map[string]*Process) {
		m := p["a"].mustJoin("x", "1")
		_ = w.ensemble.Set(groupPath+"/x", []byte("theirs")) // a cut may have ended the session
		time.Sleep(w.fraction(4) + 4*w.lag)
		m.awaitRegistered()
		m.update("2")
		w.must(p["a"].inject("delete " + groupPath))
		time.Sleep(w.fraction(4) + 4*w.lag)
		m.awaitRegistered()
		m.leave()
	})},
	{"a member leaves while no server is reachable", withObserver(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { m := p["a"].mustJoin("x", "a"); time.Sleep(w.fraction(4)); m.leave() },
			func() { m := p["b"].mustJoin("x", "b"); m.leave() },
			func() {
				time.Sleep(w.fraction(6))
				w.must(p["a"].inject("refuse"))
				w.must(p["a"].inject("cut"))
				time.Sleep(w.fraction(6))
				w.must(p["a"].inject("accept"))
			},
		)
	})},
	{"a process is killed and starts again under its id", withObserver(func(w *World, p map[string]*Process) {
		p["a"].mustJoin("x", "before")
		w.must(p["a"].inject("crash"))
		m := p["b"].mustJoin("x", "after")
		m.leave()
	})},
	{"a member is paused past its session, and its id is taken", withObserver(func(w *World, p map[string]*Process) {
		first := p["a"].mustJoin("x", "a")
		w.must(p["a"].inject("pause"))
		m := p["b"].mustJoin("x", "b")
		w.must(p["a"].inject("wake"))
		time.Sleep(w.fraction(4))
		m.leave()
		first.awaitRegistered()
		first.leave()
	})},
	{"an id is joined again while the deletion of its last node is under way", withObserver(func(w *World, p map[string]*Process) {
		m := p["a"].mustJoin("x", "1")
		w.must(p["a"].inject("cut"))
		m.leave()
		again := p["a"].mustJoin("x", "2")
		time.Sleep(w.fraction(1))
		again.awaitRegistered()
		again.leave()
	})},
	{"a namespace is created by a join", func(w *World) {
		a, err := w.process("a", func(_ *Process, o *recipes.Options) { o.Namespace = "/app" })
		if w.must(err); err != nil {
			return
		}
		m := a.mustJoin("x", "1")
		time.Sleep(w.fraction(8))
		m.leave()
	}},
}

// withObserver returns a script that runs with processes a, b and c, the last of which follows the group.
func withObserver(script func(w *World, p map[string]*Process)) func(*World) {
	return func(w *World) {
		p := w.connect("a", "b", "c")
		for _, name := range []string{"a", "b", "c"} {
			if p[name].client == nil {
				return
			}
		}
		p["c"].follow()
		script(w, p)
		p["c"].mustHaveFollowed()
	}
}
