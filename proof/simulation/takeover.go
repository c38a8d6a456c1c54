// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// takeoverDelay is the lock-delay of all contenders in TakeoverScenarios: shorter than the round trip of a client whose answers
// are slow.
const takeoverDelay = 250 * time.Millisecond

// TakeoverScenarios contains the scripts in which all contenders have a lock-delay and a fence function. Each runs with every
// cut, like Scenarios.
var TakeoverScenarios = []Scenario{
	{"a holder that releases is not waited out", contenders(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].must(p["a"].lock(w.fraction(4), 0)); p["a"].must(p["a"].lock(0, 0)) },
			func() { p["b"].must(p["b"].lock(w.fraction(8), 0)) },
			func() { p["c"].must(p["c"].do(Operation{"campaign", lockPath, w.fraction(8), 0})) },
		)
	})},
	{"a holder is killed after one whose answers are slow has released", contenders(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].must(p["a"].lock(w.fraction(2), 0)) },
			func() { p["b"].must(p["b"].lock(2*w.fraction(1), 0)) },
			func() { p["c"].must(p["c"].lock(0, 0)) },
			func() {
				time.Sleep(w.fraction(8))
				w.must(p["a"].inject("delay 200ms"))
				time.Sleep(w.fraction(1))
				w.must(p["b"].inject("crash"))
			},
		)
	})},
	{"a holder's session expires, and it locks again", contenders(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].must(p["a"].lock(w.fraction(1), 0)); p["a"].must(p["a"].lock(0, 0)) },
			func() { p["b"].must(p["b"].lock(w.fraction(8), 0)) },
			func() { time.Sleep(w.fraction(4)); w.must(p["a"].inject("expire")) },
		)
	})},
	{"a holder is paused past its session, and releases when it wakes", contenders(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].must(p["a"].lock(w.fraction(1), 0)) },
			func() { p["b"].must(p["b"].lock(w.fraction(8), 0)) },
			func() { p["c"].must(p["c"].lock(w.fraction(8), 0)) },
			func() {
				time.Sleep(w.fraction(4))
				w.must(p["a"].inject("pause"))
				time.Sleep(2 * w.opts.Timeout)
				w.must(p["a"].inject("wake"))
			},
		)
	})},
	{"an operator deletes the node of the next holder during its lock-delay", contenders(func(w *World, p map[string]*Process) {
		w.inOrder(
			func() { p["a"].must(p["a"].do(Operation{"campaign", lockPath, w.fraction(1), 0})) },
			func() { p["b"].must(p["b"].lock(w.fraction(8), 0)) },
			func() { p["c"].must(p["c"].lock(w.fraction(8), 0)) },
			func() {
				time.Sleep(w.fraction(4))
				w.must(p["a"].inject("delete " + lockPath))
				time.Sleep(takeoverDelay / 2)
				_ = p["b"].inject("delete " + lockPath) // it may have none after a cut
			},
		)
	})},
	{"a fence function fails, and the next contender fences", contenders(func(w *World, p map[string]*Process) {
		p["b"].fences = 1
		w.inOrder(
			func() { p["a"].must(p["a"].lock(w.fraction(1), 0)) },
			func() {
				if err := p["b"].lock(0, 0); !errors.Is(err, errFence) {
					p["b"].must(err) // after a cut, a has released, or b is behind c
				}
			},
			func() { p["c"].must(p["c"].lock(0, 0)) },
			func() { time.Sleep(w.fraction(4)); w.must(p["a"].inject("crash")) },
		)
	})},
}

// lockDelay returns the lock-delay of all contenders in the scenario.
func (s Scenario) lockDelay() time.Duration {
	if slices.ContainsFunc(TakeoverScenarios, func(t Scenario) bool { return t.Name == s.Name }) {
		return takeoverDelay
	}
	return 0
}

// contenders returns a script that runs with processes a, b and c.
func contenders(script func(w *World, p map[string]*Process)) func(*World) {
	return func(w *World) { script(w, w.connect("a", "b", "c")) }
}

// fenceOf returns the fence function of the process for a path, nil if the world has no lock-delay.
func (p *Process) fenceOf(path string) func(context.Context, recipes.FormerHolder) error {
	if p.world.opts.LockDelay == 0 {
		return nil
	}
	return func(_ context.Context, former recipes.FormerHolder) error {
		p.mu.Lock()
		fails := p.fences > 0
		p.fences = max(0, p.fences-1)
		p.mu.Unlock()
		if fails {
			return errFence
		}
		if !p.record(history.Event{Contender: p.name, Path: path, Token: history.ID(former.Token)}, history.Fenced) {
			return context.Canceled // a crashed process fences no holder
		}
		return nil
	}
}

// lockDelay gives all contenders of the plan a lock-delay.
func (g *generator) lockDelay() {
	g.plan.LockDelay = g.between(time.Millisecond, g.plan.Timeout/2)
}
