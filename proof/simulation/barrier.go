// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/barrier"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

// barrierPath and doublePath are the paths of the barrier and of the double barrier of all scenarios.
const (
	barrierPath = "/barrier"
	doublePath  = "/double"
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
		concurrently(func() { p["b"].tryRound(0) }, func() { p["c"].tryRound(0) })
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
			func() { p["a"].tryRound(w.opts.Timeout) },
			func() { p["b"].tryRound(w.opts.Timeout) },
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

// With ClickHouse Keeper, a cut ends the session, and a member that joins a round again in another session is counted beside the
// node of the former one, which these scripts, with a fixed number of members, do not allow for.
func init() {
	for _, s := range BarrierScenarios {
		sessionKept = append(sessionKept, s.Name)
	}
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

// mustSet sets the barrier.
func (p *Process) mustSet() { _ = p.atBarrier((*barrier.Barrier).Set) }

// mustRemove removes the barrier.
func (p *Process) mustRemove() { _ = p.atBarrier((*barrier.Barrier).Remove) }

// mustPass waits for the barrier, which is removed at some time.
func (p *Process) mustPass() {
	by := history.Event{Contender: p.name, Path: barrierPath}
	p.record(by, history.Waiting)
	if p.atBarrier((*barrier.Barrier).Wait) == nil {
		p.record(by, history.Passed)
	}
}

// atBarrier runs an operation of the barrier, which must succeed unless the process crashes.
func (p *Process) atBarrier(operation func(*barrier.Barrier, context.Context) error) error {
	b, err := barrier.New(p.client, barrierPath, nil)
	if err == nil {
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		defer cancel()
		err = operation(b, ctx)
	}
	if !p.crashed() {
		p.must(err)
	}
	return err
}

// round enters the double barrier of n members within wait, stays for hold, and leaves. It returns the error of the entry.
func (p *Process) round(n int, hold, wait time.Duration) error {
	r, err := p.enter(n, wait)
	if err == nil {
		time.Sleep(hold)
		p.leave(r)
	}
	return err
}

// mustRound is round for a member that the others wait for.
func (p *Process) mustRound(n int, hold time.Duration) {
	if err := p.round(n, hold, patience); !p.crashed() {
		p.must(err)
	}
}

// tryRound is mustRound, of two, for a member that may be alone: one of the others has begun the round without it when it lost its session,
// or with a process that was about to give up.
func (p *Process) tryRound(hold time.Duration) {
	if err := p.round(2, hold, 8*p.world.opts.Timeout); !errors.Is(err, context.DeadlineExceeded) && !p.crashed() {
		p.must(err)
	}
}

// enter enters the double barrier of n members within wait.
func (p *Process) enter(n int, wait time.Duration) (*barrier.Round, error) {
	d, err := barrier.NewDouble(p.client, doublePath, n, nil)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(p.ctx, wait)
	defer cancel()
	by := history.Event{Contender: p.name, Path: doublePath}
	p.record(by, history.Entering)
	r, err := d.Enter(ctx)
	if err != nil {
		return nil, err
	}
	by.Node, by.Limit = r.Path(), n
	p.record(by, history.Entered)
	return r, nil
}

// leave leaves a round, which must be possible after any fault that has ended.
func (p *Process) leave(r *barrier.Round) {
	by := history.Event{Contender: p.name, Path: doublePath, Node: r.Path()}
	p.record(by, history.Leaving)
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	err := r.Leave(ctx)
	if p.crashed() {
		return
	}
	if p.must(err); err == nil {
		p.record(by, history.Left)
	}
}
