// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/torture/register"
)

// Causes for which the context of a call ends.
var (
	errBurst   = errors.New("all contenders of the path are cancelled")
	errStopped = errors.New("the contender was told to stop")
)

// A load is what a worker process has beside its actors: one further client, with many waiters and many holds. What
// happens to that client happens to all of them at the same moment.
type load struct {
	*player
	ctx context.Context // of calls that acquire; ends when nothing is to be begun any more
}

// run returns when nothing of it is left. Releases are bound by running alone.
func (l *load) run(running context.Context) {
	first := &actor{player: l.player, ctx: running, rand: rand.New(rand.NewPCG(l.spec.Seed, 1<<32))}
	for !first.connected() {
		if l.stopped() {
			return
		}
	}
	defer first.client.Close()
	var all sync.WaitGroup
	start := func(n int, run func(a *actor)) {
		a := &actor{
			player: l.player, ctx: running, asking: l.ctx, client: first.client,
			rand: rand.New(rand.NewPCG(l.spec.Seed, uint64(1<<33+n))), pen: &register.Client{Addr: l.spec.Register},
		}
		all.Go(func() {
			run(a)
			_ = a.pen.Close() // nothing is written any more
		})
	}
	n := 0
	for _, path := range l.spec.Paths {
		for range l.spec.Waiters {
			n++
			start(n, func(a *actor) { a.waitAgainAndAgain(path) })
		}
	}
	for i := range l.spec.Holds {
		n++
		start(n, func(a *actor) { a.holdOn(fmt.Sprintf("%s/%d", l.spec.HoldsAt, i)) })
	}
	all.Wait()
}

// waitAgainAndAgain contends for one path until nothing is to be begun any more.
func (a *actor) waitAgainAndAgain(path string) {
	for !a.stopped() {
		if a.rests(path) {
			a.pause(50 * time.Millisecond)
			continue
		}
		drawn := a.draw()
		drawn.close = false // the client is not this waiter's
		if drawn.how == "try" {
			drawn.how = "lock"
		}
		a.attempt(path, drawn)
	}
}

// holdOn holds one path until nothing is to be begun any more. What it loses it acquires again immediately.
func (a *actor) holdOn(path string) {
	for !a.stopped() {
		a.attempt(path, ask{how: "lock", idle: true})
	}
}

// idle waits until the hold is lost, or nothing is to be begun any more.
func (a *actor) idle(got Hold) {
	select {
	case <-got.Done():
	case <-a.stop:
	}
}

// cancellable derives the context of an attempt at a path. Cancel PATH ends all of them at the same moment.
func (p *player) cancellable(ctx context.Context, path string) (context.Context, context.CancelFunc) {
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

// cancelAll cancels all attempts at a path.
func (p *player) cancelAll(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for cancel := range p.waiting[path] {
		(*cancel)(errBurst)
	}
}

// wasCancelled reports whether an attempt failed because its context was cancelled by this process.
func wasCancelled(ctx context.Context, err error) bool {
	cause := context.Cause(ctx)
	return errors.Is(err, context.Canceled) && (errors.Is(cause, errBurst) || errors.Is(cause, errStopped))
}
