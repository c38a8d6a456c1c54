// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/guardian"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// With ClickHouse Keeper the rehearsal fails, as its servers open other sessions.
func init() {
	for _, s := range GuardianScenarios {
		sessionKept = append(sessionKept, s.Name)
	}
}

// A watcher is the guardian of one process: it closes the sessions of that some time after its death.
type watcher struct {
	world    *World
	link     *zktest.Link
	sessions *guardian.Sessions
	late     time.Duration // from the death until it is scheduled
}

// Rehearse is part of recipes.Guard.
func (g *watcher) Rehearse(ctx context.Context, servers []string, timeout time.Duration) error {
	return guardian.Rehearse(ctx, g.link.Dial, servers, timeout)
}

// Protect is part of recipes.Guard.
func (g *watcher) Protect(_ context.Context, servers []string, session int64, password []byte, timeout time.Duration) error {
	g.sessions.Guard(guardian.Session{Servers: servers, ID: session, Password: password, Timeout: timeout})
	return nil
}

// Forget is part of recipes.Guard.
func (g *watcher) Forget(session int64) { g.sessions.Forget(session) }

// Guarded is part of recipes.Guard.
func (g *watcher) Guarded(int64) error { return nil }

// act closes the sessions of a process that has died. A cut of victim "c" is one of the guardian's connections.
func (g *watcher) act() {
	time.Sleep(g.late)
	g.world.setTraps("c", g.link)
	err := g.sessions.Close(g.link.Dial, func(context.Context) error { return nil })
	if cut := g.world.cut.Victim != ""; err != nil && !cut && g.late < g.world.opts.Timeout/2 {
		g.world.problemf("a guardian did not close the sessions of its process: %v", err)
	}
}

// connectGuarded connects the process a, which has a guardian.
func (w *World) connectGuarded(late time.Duration) *Process {
	g := &watcher{world: w, link: w.ensemble.Link(), sessions: guardian.NewSessions(), late: late}
	g.link.Delay(defaultLatency)
	p, err := w.process("a", func(p *Process, opts *recipes.Options) {
		opts.Guard = g
		p.died = func() { w.calling.Go(g.act) }
	})
	if err != nil {
		w.must(err)
		p = &Process{world: w, name: "a", dead: true}
	}
	return p
}

// GuardianScenarios contains the scripts in which a process with a guardian dies. They run with every cut, of the guardian's
// connections too.
var GuardianScenarios = []Scenario{
	{"a guarded holder is killed", killGuarded(0)},
	{"a guarded holder is killed, and its guardian is late by an eighth of the timeout", killGuarded(1. / 8)},
	{"a guarded holder is killed, and its guardian is late by the timeout", killGuarded(1)},
	{"a guarded holder is killed, and its guardian is late by twice the timeout", killGuarded(2)},
	{"a guarded waiter is killed", func(w *World) {
		a, b := w.connectGuarded(0), w.connect("b")["b"]
		w.inOrder(
			func() { b.must(b.lock(w.fraction(4), 0)) },
			func() { a.must(a.lock(0, 0)) },
			func() { b.must(b.lock(0, 0)) },
			func() { time.Sleep(w.fraction(8)); w.must(a.inject("crash")) },
		)
	}},
	{"a guarded holder is paused past its session, and then killed", func(w *World) {
		a, b := w.connectGuarded(0), w.connect("b")["b"]
		w.inOrder(
			func() { a.must(a.lock(w.fraction(1), 0)) },
			func() { b.must(b.lock(2*w.opts.Timeout, 0)) },
			func() {
				time.Sleep(w.fraction(8))
				w.must(a.inject("pause"))
				time.Sleep(3 * w.opts.Timeout)
				w.must(a.inject("crash"))
			},
		)
	}},
	{"a guarded holder is killed while its session is being replaced", func(w *World) {
		a, b := w.connectGuarded(0), w.connect("b")["b"]
		w.inOrder(
			func() { a.must(a.lock(w.fraction(1), 0)) },
			func() { b.must(b.lock(w.fraction(8), 0)) },
			func() {
				time.Sleep(w.fraction(8))
				w.must(a.inject("expire"))
				time.Sleep(2 * defaultLatency)
				w.must(a.inject("crash"))
			},
		)
	}},
}

// killGuarded kills a holder, whose guardian acts after that many session timeouts.
func killGuarded(late float64) func(w *World) {
	return func(w *World) {
		a, b := w.connectGuarded(time.Duration(late*float64(w.opts.Timeout))), w.connect("b")["b"]
		w.inOrder(
			func() { a.must(a.lock(w.fraction(1), 0)) },
			func() { b.must(b.lock(w.fraction(8), 0)) },
			func() { time.Sleep(w.fraction(8)); w.must(a.inject("crash")) },
		)
	}
}
