// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// permitLimit is the limit of semaphores, until a scenario resizes one.
const permitLimit = 3

// acquireKind begins the kinds of operations of semaphores, and the weight ends them. tryAcquireKind tries one permit.
const (
	acquireKind    = "acquire"
	tryAcquireKind = "tryacquire"
)

// permitKinds contains the kinds of operations of semaphores.
var permitKinds = []string{acquireKind + "1", acquireKind + "2", acquireKind + "3", tryAcquireKind}

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
			p.must(p.do(Operation{acquireKind + "3", lockPath, w.fraction(8), allWait}))
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
	return p.do(Operation{acquireKind + strconv.Itoa(weight), lockPath, hold, 0})
}

// permitsWithin is permits with a bound for the wait.
func (p *Process) permitsWithin(weight int, wait time.Duration) error {
	return p.do(Operation{acquireKind + strconv.Itoa(weight), lockPath, 0, wait})
}

// acquirePermits requests a grant of a semaphore.
func (p *Process) acquirePermits(ctx context.Context, o Operation) (grant, error) {
	s, err := p.semaphore(o.Path)
	if err != nil {
		return grant{}, err
	}
	var hold *lock.Hold
	if o.Kind == tryAcquireKind {
		hold, err = s.TryAcquire(ctx, 1)
	} else {
		var weight int
		if weight, err = strconv.Atoi(strings.TrimPrefix(o.Kind, acquireKind)); err != nil {
			return grant{}, fmt.Errorf("operation %q: %w", o.Kind, err)
		}
		hold, err = s.Acquire(ctx, weight)
	}
	if err != nil {
		return grant{}, err
	}
	return grant{Claim: hold.Claim, release: hold.Unlock}, nil
}

// resize changes the limit at lockPath, unless more permits are held or waited for.
func (p *Process) resize(limit int) {
	s, err := p.semaphore(lockPath)
	if p.world.must(err); err != nil {
		return
	}
	if err = s.Resize(p.ctx, limit); !errors.As(err, new(*recipes.BusyError)) {
		p.must(err)
	}
}

// semaphore returns the process's semaphore of a path.
func (p *Process) semaphore(path string) (*lock.Semaphore, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.semaphores[path]; s != nil {
		return s, nil
	}
	s, err := lock.NewSemaphore(p.client, path, permitLimit, &lock.Options{Owner: p.name})
	if err == nil {
		p.semaphores[path] = s
	}
	return s, err
}

// recordLimited records a limit of permits that the ensemble committed. It parses it independently of package recipes.
func (w *World) recordLimited(c zktest.Commit) {
	path, is := strings.CutSuffix(c.Path, "-limit")
	var text struct{ Limit int }
	if !is || json.Unmarshal(c.Data, &text) != nil {
		return
	}
	w.recorder.AddAt(c.Time, history.Event{Kind: history.Limited, Path: path, Node: c.Path, Zxid: history.ID(c.Zxid), Limit: text.Limit})
}

// permits turns some operations of some plans into those of semaphores, on the same paths.
func (g *generator) permits() {
	if g.IntN(4) > 0 {
		return
	}
	for i, s := range g.plan.Steps {
		kind, args, _ := strings.Cut(s.Action, " ")
		switch {
		case kind == "lock" && g.IntN(6) > 0:
			kind = pick(g, permitKinds[0], permitKinds[0], permitKinds[1], permitKinds[2])
		case kind == "try" && g.IntN(2) == 0:
			kind = tryAcquireKind
		}
		g.plan.Steps[i].Action = strings.TrimSuffix(kind+" "+args, " ")
	}
}
