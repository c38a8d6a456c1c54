// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// readWrite contains the kinds of operations of read/write locks: "downgrade" is "write", and then a downgrade and as much
// work as a reader.
var readWrite = []string{"read", "tryread", "write", "downgrade"}

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

// acquireReadWrite requests a grant of a read/write lock.
func (p *Process) acquireReadWrite(ctx context.Context, o Operation) (grant, error) {
	m, err := p.rwMutex(o.Path)
	if err != nil {
		return grant{}, err
	}
	if o.Kind == "write" || o.Kind == "downgrade" {
		hold, err := m.Lock(ctx)
		if err != nil {
			return grant{}, err
		}
		return grant{Claim: hold.Claim, release: hold.Unlock, downgrade: hold.Downgrade}, nil
	}
	read := m.RLock
	if o.Kind == "tryread" {
		read = m.TryRLock
	}
	hold, err := read(ctx)
	if err != nil {
		return grant{}, err
	}
	return grant{Claim: hold.Claim, release: hold.Unlock}, nil
}

// downgrade downgrades a grant and then works for d. It reports whether the process has not crashed.
func (p *Process) downgrade(by history.Event, got grant, write *committer, d time.Duration) bool {
	if !p.record(by, history.Downgrading) {
		return false
	}
	switch err := got.downgrade(p.ctx); {
	case err == nil:
		by.Shared = true
		p.work(p.ctx, by, got.Claim, write, d)
	case !errors.Is(err, recipes.ErrLost) && p.ctx.Err() == nil:
		p.world.must(err)
	}
	return true
}

// rwMutex returns the process's read/write lock of a path.
func (p *Process) rwMutex(path string) (*lock.RWMutex, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.rwMutexes[path]; m != nil {
		return m, nil
	}
	m, err := lock.NewRW(p.client, path, &lock.Options{Owner: p.name})
	if err == nil {
		p.rwMutexes[path] = m
	}
	return m, err
}

// readWrite turns some operations of some plans into those of read/write locks, on the same paths.
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
