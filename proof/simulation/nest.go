// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// "nest" is "lock" with nested locks.
func init() {
	operations["nest"] = operation{acquire: locking((*lock.Mutex).Lock), during: (*Process).nest}
}

// NestScenarios contains the scripts of re-entrant locks, which run with every cut as the others do.
var NestScenarios = []Scenario{
	{"two clients nest locks, one after the other", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].nested(w.fraction(4))); p["a"].must(p["a"].nested(0)) },
			func() { p["b"].must(p["b"].nested(w.fraction(4))) },
		)
	}},
	{"a client with nested locks is killed", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].nested(w.fraction(1))) },
			func() { p["b"].must(p["b"].nested(0)) },
			func() { time.Sleep(w.fraction(1) + w.fraction(3)); w.must(p["a"].inject("crash")) },
		)
	}},
	{"the session of a client with nested locks expires", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].nested(w.fraction(2))) },
			func() { p["b"].must(p["b"].nested(w.fraction(8))) },
			func() { time.Sleep(w.fraction(2) + w.fraction(8)); w.must(p["a"].inject("expire")) },
		)
	}},
	{"the session expires of a client that is about to nest locks", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].nested(w.fraction(2))) },
			func() { p["b"].must(p["b"].nested(w.fraction(8))) },
			func() { time.Sleep(w.fraction(3)); w.must(p["a"].inject("expire")) },
		)
	}},
	{"a client with nested locks is paused past its session", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].nested(w.fraction(2))) },
			func() { p["b"].must(p["b"].nested(2 * w.opts.Timeout)) },
			func() {
				time.Sleep(w.fraction(2) + w.fraction(8))
				w.must(p["a"].inject("pause"))
				time.Sleep(2 * w.opts.Timeout)
				w.must(p["a"].inject("wake"))
			},
		)
	}},
}

// nested locks lockPath, holds it for d, and then holds nested locks for as long again.
func (p *Process) nested(d time.Duration) error { return p.do(Operation{"nest", lockPath, d, 0}) }

// nest works under a hold, locks again under it, at the beginning and in the middle of as much work, and unlocks the holds in the
// order in which it took them, but for the last one.
func (p *Process) nest(by history.Event, got *grant, o Operation) {
	p.workUnder(by, got, o)
	m, err := p.mutex(o.Path)
	if p.world.must(err); err != nil {
		return
	}
	ctx, cancel := got.hold.Context(p.ctx)
	defer cancel()
	open := p.nestIn(ctx, []*lock.Hold{got.hold}, m.Lock)
	o.Hold /= 2
	p.workUnder(by, got, o)
	open = p.nestIn(context.WithoutCancel(ctx), open, m.TryLock) // as a clean-up does
	o.Hold /= 2
	for ; len(open) > 1 && p.waitRunning(); open = open[1:] {
		if err := open[0].Unlock(p.ctx); !errors.Is(err, recipes.ErrLost) {
			p.must(err)
		}
		p.workUnder(by, got, o)
	}
	got.release = open[len(open)-1].Unlock
}

// nestIn adds a nested hold to those that are open. It must have the token of the outer one, and must not be granted if that
// has ended.
func (p *Process) nestIn(ctx context.Context, open []*lock.Hold, lockAgain func(context.Context) (*lock.Hold, error)) []*lock.Hold {
	if !p.waitRunning() {
		return open
	}
	lost := open[0].Err()
	inner, err := lockAgain(ctx)
	switch {
	case err != nil && !errors.Is(err, recipes.ErrLost) && p.ctx.Err() == nil:
		p.world.problemf("%s: nested lock: %w", p.name, err)
	case err == nil && lost != nil:
		p.world.problemf("%s: a nested lock joined a hold that had ended: %w", p.name, lost)
	case err == nil && inner.Token() != open[0].Token():
		p.world.problemf("%s: a nested lock has token %v under a hold with token %v", p.name, inner.Token(), open[0].Token())
	}
	if err != nil {
		return open
	}
	return append(open, inner)
}

// nested turns some operations of some plans into nested locks, and into campaigns whose leaders publish values.
func (g *generator) nested() {
	if g.IntN(3) > 0 {
		return
	}
	for i, s := range g.plan.Steps {
		kind, args, _ := strings.Cut(s.Action, " ")
		switch {
		case kind == "lock" && g.IntN(2) == 0:
			kind = "nest"
		case kind == "campaign":
			kind = "proclaim"
		}
		g.plan.Steps[i].Action = strings.TrimSuffix(kind+" "+args, " ")
	}
}
