// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/torture/register"
)

// A load is one additional client of a worker process, with many waiters and many holds. The loss of its session affects all
// of them at the same time.
type load struct {
	*process
	ctx context.Context // of acquisitions; ends when no further operation may begin
}

// run returns when all waiters and holds have ended. Their client stays connected. The context of releases is running, not l.ctx.
func (l *load) run(running context.Context) {
	first := &workloadClient{process: l.process, ctx: running, rand: rand.New(rand.NewPCG(l.spec.Seed, 1<<32))}
	for !first.connected() {
		if l.stopped() {
			return
		}
	}
	defer l.keep(first.outstanding, first.close)
	var all sync.WaitGroup
	start := func(n int, run func(a *workloadClient)) {
		a := &workloadClient{
			process: l.process, ctx: running, acquiring: l.ctx, client: first.client,
			rand: rand.New(rand.NewPCG(l.spec.Seed, uint64(1<<33+n))), registers: &register.Client{Addr: l.spec.Register},
		}
		all.Go(func() {
			run(a)
			_ = a.registers.Close() // no write follows
		})
	}
	n := 0
	for _, path := range l.spec.Paths {
		for range l.spec.Waiters {
			n++
			start(n, func(a *workloadClient) { a.contend(path) })
		}
	}
	for i := range l.spec.Holds {
		n++
		start(n, func(a *workloadClient) { a.holdUntilLost(fmt.Sprintf("%s/%d", l.spec.HoldsAt, i)) })
	}
	all.Wait()
}

// contend contends for one path until no further operation may begin.
func (a *workloadClient) contend(path string) {
	for !a.stopped() {
		if a.isAvoided(path) {
			a.pause(50 * time.Millisecond)
			continue
		}
		drawn := a.drawOperation()
		drawn.close = false // waiters share the client
		if drawn.how == "try" {
			drawn.how = "lock"
		}
		a.attempt(drawn, path)
	}
}

// holdUntilLost holds one path until no further operation may begin. After a loss it acquires the path again immediately.
func (a *workloadClient) holdUntilLost(path string) {
	for !a.stopped() {
		a.attempt(operation{how: "lock", idle: true}, path)
	}
}

// idle waits until the hold is lost or no further operation may begin.
func (a *workloadClient) idle(got Hold) {
	select {
	case <-got.Done():
	case <-a.stop:
	}
}

// cancellable derives the context of an attempt on a path, which Cancel PATH cancels.
func (p *process) cancellable(ctx context.Context, path string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting[path] == nil {
		p.waiting[path] = map[*context.CancelCauseFunc]struct{}{}
	}
	p.waiting[path][&cancel] = struct{}{}
	return ctx, func() {
		p.mu.Lock()
		delete(p.waiting[path], &cancel)
		p.mu.Unlock()
		cancel(nil)
	}
}

// cancelAll cancels all attempts on a path.
func (p *process) cancelAll(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for cancel := range p.waiting[path] {
		(*cancel)(errBurst)
	}
}
