// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/barrier"
	"github.com/lockkeeper/lockkeeper/internal/history"
)

// barrierPath and doublePath are the paths of the barrier and of the double barrier of all scenarios.
const (
	barrierPath = "/barrier"
	doublePath  = "/double"
)

// mustSet sets the barrier.
func (p *Process) mustSet() { p.atBarrier((*barrier.Barrier).Set) }

// mustRemove removes the barrier.
func (p *Process) mustRemove() { p.atBarrier((*barrier.Barrier).Remove) }

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
	b, err := barrier.New(p.client, barrierPath)
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

// tryRound is mustRound for a member that may be alone: one of the others has begun the round without it when it lost its session,
// or with a process that was about to give up.
func (p *Process) tryRound(n int, hold time.Duration) {
	if err := p.round(n, hold, 8*p.world.opts.Timeout); !errors.Is(err, context.DeadlineExceeded) && !p.crashed() {
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
