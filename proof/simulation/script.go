// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// fraction returns the session timeout divided by n.
func (w *World) fraction(n int) time.Duration { return w.opts.Timeout / time.Duration(n) }

// connect starts processes, by name. One that cannot connect is recorded as a problem and treated as crashed.
func (w *World) connect(names ...string) map[string]*Process {
	processes := map[string]*Process{}
	for _, name := range names {
		p, err := w.process(name, nil)
		if err != nil {
			w.must(err)
			p = &Process{world: w, name: name, dead: true}
		}
		processes[name] = p
	}
	return processes
}

// concurrently runs functions at the same time, and waits for all of them.
func concurrently(all ...func()) {
	var group sync.WaitGroup
	for _, f := range all {
		group.Go(f)
	}
	group.Wait()
}

// inOrder is concurrently with a delay between the starts, which suffices for contenders to join the queue in that order,
// also where servers lag.
func (w *World) inOrder(all ...func()) {
	var group sync.WaitGroup
	for _, f := range all {
		group.Go(f)
		time.Sleep(w.fraction(32) + 4*w.lag)
	}
	group.Wait()
}

// lock locks lockPath, and holds it for hold. It waits for wait, or without limit if wait is 0.
func (p *Process) lock(hold, wait time.Duration) error {
	return p.do(Operation{"lock", lockPath, hold, wait})
}

// reign campaigns at lockPath, claims an epoch, and leads for d.
func (p *Process) reign(d time.Duration) error { return p.do(Operation{"reign", lockPath, d, 0}) }

// try tries to lock lockPath without waiting.
func (p *Process) try() error { return p.do(Operation{"try", lockPath, 0, 0}) }

// must records a non-nil error as a problem.
func (p *Process) must(err error) {
	if err != nil {
		p.world.problemf("%s: %w", p.name, err)
	}
}

// mustFail records a problem unless the error is the wanted one.
func (p *Process) mustFail(err, want error) {
	if !errors.Is(err, want) {
		p.world.problemf("%s: got %w, want %w", p.name, err, want)
	}
}

// retry sends a request until it succeeds, ten times at most.
func (p *Process) retry(request func(*zk.Conn) error) {
	for range 10 {
		err := request(p.client.Conn())
		if err == nil {
			return
		}
		time.Sleep(p.world.fraction(4))
	}
	p.world.problemf("%s: the request was not carried out in ten attempts", p.name)
}

// observe follows the leaders until one has the ID last.
func (p *Process) observe(last string) error {
	e, err := p.election(lockPath)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(p.ctx, 8*p.world.opts.Timeout)
	defer cancel()
	for leader, err := range e.Observe(ctx) {
		if err != nil {
			return err
		}
		if leader.Owner == last {
			return nil
		}
	}
	return nil
}

// panicUnderLock runs work that panics while it holds the lock.
func (p *Process) panicUnderLock() {
	defer func() {
		if r := recover(); r != "oh" {
			p.world.problemf("%s: recovered %v", p.name, r)
		}
	}()
	p.must(p.runDo(p.ctx, lockPath, func(context.Context, fencing.Token) { panic("oh") }))
}
