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

// The operations of read/write locks: "downgrade" is "write", and then a downgrade and as much work as a reader.
func init() {
	operations["read"] = operation{acquire: reading((*lock.RWMutex).RLock), during: (*Process).workUnder}
	operations["tryread"] = operation{acquire: reading((*lock.RWMutex).TryRLock), during: (*Process).workUnder}
	operations["write"] = operation{acquire: (*Process).writing, during: (*Process).workUnder}
	operations["downgrade"] = operation{acquire: (*Process).writing, during: (*Process).downgrade}
}

// ReadWriteScenarios contains the scripts of read/write locks, which run with every cut as the others do.
var ReadWriteScenarios = []Scenario{
	{"readers share the lock between two writers", func(w *World) {
		p := w.connect("a", "b", "c")
		w.inOrder(
			func() { p["a"].must(p["a"].rw("write", w.fraction(3))) },
			func() { p["b"].must(p["b"].rw("read", w.fraction(4))) },
			func() { p["c"].must(p["c"].rw("read", w.fraction(8))) },
			func() { p["a"].must(p["a"].rw("write", w.fraction(8))) },
			func() { p["b"].must(p["b"].rw("read", 0)) },
		)
	}},
	{"a writer downgrades, with a reader and a writer behind it", func(w *World) {
		p := w.connect("a", "b", "c")
		w.inOrder(
			func() { p["a"].must(p["a"].rw("downgrade", w.fraction(4))) },
			func() { p["b"].must(p["b"].rw("read", w.fraction(8))) },
			func() { p["c"].must(p["c"].rw("write", w.fraction(8))) },
			func() { p["b"].must(p["b"].rw("read", 0)) },
		)
	}},
	{"the session of a writer expires that has downgraded", func(w *World) {
		p := w.connect("a", "b", "c")
		w.inOrder(
			func() { p["a"].must(p["a"].rw("downgrade", w.fraction(4))) },
			func() { p["b"].must(p["b"].rw("read", w.fraction(2))) },
			func() { p["c"].must(p["c"].lock(w.fraction(8), 0)) },
			func() { time.Sleep(w.fraction(3)); w.must(p["a"].inject("expire")) },
		)
	}},
}

// rw runs an operation of a read/write lock at lockPath.
func (p *Process) rw(kind string, hold time.Duration) error {
	return p.do(Operation{kind, lockPath, hold, 0})
}

// reading returns a function that requests a grant of a reader.
func reading(take func(*lock.RWMutex, context.Context) (*lock.Hold, error)) acquirer {
	return func(p *Process, ctx context.Context, o Operation) (grant, error) {
		m, err := p.rwMutex(o.Path)
		if err != nil {
			return grant{}, err
		}
		return grantOf(take(m, ctx))
	}
}

// writing requests a grant of a writer.
func (p *Process) writing(ctx context.Context, o Operation) (grant, error) {
	m, err := p.rwMutex(o.Path)
	if err != nil {
		return grant{}, err
	}
	hold, err := m.Lock(ctx)
	if err != nil {
		return grant{}, err
	}
	return grant{Claim: hold.Claim, release: hold.Unlock, downgrade: hold.Downgrade}, nil
}

// downgrade works under a writer's grant, downgrades it, and works as a reader.
func (p *Process) downgrade(by history.Event, got *grant, o Operation) {
	p.workUnder(by, got, o)
	if !p.record(by, history.Downgrading) {
		return
	}
	switch err := got.downgrade(p.ctx); {
	case err == nil:
		by.Shared = true
		p.workUnder(by, got, o)
	case !errors.Is(err, recipes.ErrLost) && p.ctx.Err() == nil:
		p.world.must(err)
	}
}

// rwMutex returns the process's read/write lock of a path.
func (p *Process) rwMutex(path string) (*lock.RWMutex, error) {
	return once(p, path, func() (*lock.RWMutex, error) { return lock.NewRW(p.client, path, &lock.RWOptions{Owner: p.name}) })
}

// readWrite has some operations of some plans use read/write locks, on the same paths.
func (g *generator) readWrite() {
	if g.IntN(3) > 0 {
		return
	}
	for i, s := range g.plan.Steps {
		kind, args, _ := strings.Cut(s.Action, " ")
		switch {
		case kind == "lock" && g.IntN(5) > 0:
			kind = pick(g, "read", "read", "read", "write", "downgrade")
		case kind == "try" && g.IntN(2) == 0:
			kind = "tryread"
		}
		g.plan.Steps[i].Action = strings.TrimSuffix(kind+" "+args, " ")
	}
}
