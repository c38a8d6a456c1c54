// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/lock"
)

// permitLimit is the limit of semaphores, until a scenario resizes one.
const permitLimit = 3

// The operations of semaphores: the digit of "acquire" is the weight.
func init() {
	for weight := range permitLimit {
		operations[acquire(weight+1)] = operation{acquire: permitting((*lock.Semaphore).Acquire, weight+1), during: (*Process).workUnder}
	}
	operations["tryacquire"] = operation{acquire: permitting((*lock.Semaphore).TryAcquire, 1), during: (*Process).workUnder}
}

// acquire returns the name of the operation that acquires permits.
func acquire(weight int) string { return fmt.Sprint("acquire", weight) }

// PermitScenarios contains the scripts of semaphores, which run with every cut as the others do.
var PermitScenarios = []Scenario{
	{"a waiter needs all permits, and others need one", func(w *World) {
		p := w.connect("a", "b", "c")
		w.inOrder(
			func() { p["a"].must(p["a"].permits(1, w.fraction(3))) },
			func() { p["b"].must(p["b"].permits(1, w.fraction(8))); p["b"].must(p["b"].permits(2, 0)) },
			func() { p["c"].must(p["c"].permits(3, w.fraction(8))) },
			func() { p["a"].must(p["a"].permits(1, w.fraction(8))) },
		)
	}},
	{"two processes acquire all permits again and again", func(w *World) {
		p := w.connect("a", "b")
		twice := func(p *Process) {
			p.must(p.do(Operation{acquire(3), lockPath, w.fraction(8), allWait}))
			p.must(p.permitsWithin(3, allWait)) // a request that waits as long is part of a deadlock
		}
		concurrently(func() { twice(p["a"]) }, func() { twice(p["b"]) })
	}},
	{"the session of a holder of permits expires, and a waiter behind is cancelled", func(w *World) {
		p := w.connect("a", "b", "c")
		w.inOrder(
			func() { p["a"].must(p["a"].permits(2, w.fraction(1))) },
			func() { p["b"].mustFail(p["b"].permitsWithin(3, w.fraction(3)), context.DeadlineExceeded) },
			func() { p["c"].must(p["c"].permits(2, w.fraction(8))) },
			func() { time.Sleep(w.fraction(2)); w.must(p["a"].inject("expire")) },
		)
	}},
	{"the limit is raised and lowered while processes wait", func(w *World) {
		p := w.connect("a", "b", "c")
		w.inOrder(
			func() { p["a"].must(p["a"].permits(3, w.fraction(3))) },
			func() { p["b"].must(p["b"].permits(1, w.fraction(4))); p["b"].must(p["b"].permits(2, 0)) },
			func() { p["c"].must(p["c"].permits(1, w.fraction(4))) },
			func() { time.Sleep(w.fraction(8)); p["c"].resize(4); p["c"].resize(2); p["a"].resize(3) },
		)
	}},
}

// permits runs an operation of a semaphore at lockPath.
func (p *Process) permits(weight int, hold time.Duration) error {
	return p.do(Operation{acquire(weight), lockPath, hold, 0})
}

// permitsWithin is permits with a bound for the wait.
func (p *Process) permitsWithin(weight int, wait time.Duration) error {
	return p.do(Operation{acquire(weight), lockPath, 0, wait})
}

// permitting returns a function that requests permits.
func permitting(take func(*lock.Semaphore, context.Context, int) (*lock.Permits, error), weight int) acquirer {
	return func(p *Process, ctx context.Context, o Operation) (grant, error) {
		s, err := p.semaphore(o.Path)
		if err != nil {
			return grant{}, err
		}
		permits, err := take(s, ctx, weight)
		if err != nil {
			return grant{}, err
		}
		return grant{Claim: permits.Claim, release: permits.Release}, nil
	}
}

// resize changes the limit at lockPath, unless more permits are held or waited for.
func (p *Process) resize(limit int) {
	s, err := p.semaphore(lockPath)
	if p.world.must(err); err != nil {
		return
	}
	if err = s.Resize(p.ctx, limit); !errors.As(err, new(*lock.HeldError)) {
		p.must(err)
	}
}

// semaphore returns the process's semaphore of a path.
func (p *Process) semaphore(path string) (*lock.Semaphore, error) {
	return once(p, path, func() (*lock.Semaphore, error) {
		return lock.NewSemaphore(p.client, path, permitLimit, &lock.SemaphoreOptions{Owner: p.name})
	})
}

// permits has some operations of some plans use semaphores, on the same paths.
func (g *generator) permits() {
	if g.IntN(4) > 0 {
		return
	}
	for i, s := range g.plan.Steps {
		kind, args, _ := strings.Cut(s.Action, " ")
		switch {
		case kind == "lock" && g.IntN(6) > 0:
			kind = pick(g, acquire(1), acquire(1), acquire(2), acquire(3))
		case kind == "try" && g.IntN(2) == 0:
			kind = "tryacquire"
		}
		g.plan.Steps[i].Action = strings.TrimSuffix(kind+" "+args, " ")
	}
}
