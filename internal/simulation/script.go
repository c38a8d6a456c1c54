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

// What stories are told with.

// part is the session timeout divided by n.
func (w *World) part(n int) time.Duration { return w.opts.Timeout / time.Duration(n) }

// cast makes processes. Those that cannot connect are told of, and stand there as if they had crashed.
func (w *World) cast(names ...string) map[string]*Process {
	cast := map[string]*Process{}
	for _, name := range names {
		p, err := w.process(name, nil)
		if err != nil {
			w.must(err)
			p = &Process{world: w, name: name, dead: true}
		}
		cast[name] = p
	}
	return cast
}

// together does all of it at once, and waits until all is done.
func together(all ...func()) {
	var group sync.WaitGroup
	for _, f := range all {
		group.Go(f)
	}
	group.Wait()
}

// inTurn is together, each a moment after the one before: long enough to stand in line before it, also where servers are
// behind.
func (w *World) inTurn(all ...func()) {
	var group sync.WaitGroup
	for _, f := range all {
		group.Go(f)
		time.Sleep(w.part(32) + 4*w.lag)
	}
	group.Wait()
}

func (p *Process) lock(hold, wait time.Duration) error { return p.do(Ask{"lock", line, hold, wait}) }

func (p *Process) reign(d time.Duration) error { return p.do(Ask{"reign", line, d, 0}) }

func (p *Process) try() error { return p.do(Ask{"try", line, 0, 0}) }

// must notes an error that the process must not get.
func (p *Process) must(err error) {
	if err != nil {
		p.world.failf("%s: %w", p.name, err)
	}
}

// mustFail notes an error that is not the one which the process must get.
func (p *Process) mustFail(err, want error) {
	if !errors.Is(err, want) {
		p.world.failf("%s: got %w, want %w", p.name, err, want)
	}
}

// patiently asks until it is answered.
func (p *Process) patiently(request func(*zk.Conn) error) {
	for range 10 {
		err := request(p.client.Conn())
		if err == nil {
			return
		}
		time.Sleep(p.world.part(4))
	}
	p.world.failf("%s: a request was not carried out in ten attempts", p.name)
}

// observe follows who leads until it is that one.
func (p *Process) observe(last string) error {
	e, err := p.election(line)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(p.ctx, 8*p.world.opts.Timeout)
	defer cancel()
	for leader, err := range e.Observe(ctx) {
		if err != nil {
			return err
		}
		if leader.ID == last {
			return nil
		}
	}
	return nil
}

// panics has work panic under the lock.
func (p *Process) panics() {
	defer func() {
		if r := recover(); r != "oh" {
			p.world.failf("%s: recovered %v", p.name, r)
		}
	}()
	p.must(p.runDo(p.ctx, line, func(context.Context, fencing.Token) { panic("oh") }))
}
