// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// The operations for several locks, whose paths commas separate: by Lock or TryLock of all, and with the first path for reading
// or not.
func init() {
	for _, name := range []string{"all", "tryall", "allread", "tryallread"} {
		operations[name] = operation{all: (*Process).doAll}
	}
}

// AllScenarios contains the scripts of requests for several locks, which run with every cut as the others do. A request that
// waits as long as allWait is part of a deadlock.
var AllScenarios = []Scenario{
	{"a client takes two locks on unknown paths and on known ones", func(w *World) {
		for _, a := range w.connect("a") {
			a.must(a.all(w.fraction(8), allWait))
			a.must(a.all(0, allWait))
		}
	}},
	{"two clients take two locks in different orders", func(w *World) {
		p := w.connect("a", "b")
		twice := func(p *Process, paths ...string) func() {
			return func() {
				p.must(p.all(w.fraction(8), allWait, paths...))
				p.must(p.all(0, allWait, paths...))
			}
		}
		concurrently(twice(p["a"], lockPath, secondPath), twice(p["b"], secondPath, lockPath))
	}},
	{"a client gives up on two locks, and another one gets the lock that was free", func(w *World) {
		p := w.connect("a", "b", "c")
		w.inOrder(
			func() { p["b"].must(p["b"].do(Operation{"lock", lockPath, w.fraction(1), 0})) },
			func() { p["a"].mustFail(p["a"].all(0, w.fraction(4)), context.DeadlineExceeded) },
			func() { p["c"].must(p["c"].do(Operation{"lock", secondPath, w.fraction(8), allWait})) },
		)
	}},
	{"a client tries to take two locks, of which another one has the second at first", func(w *World) {
		p := w.connect("a", "b")
		try := func() error { return p["a"].several("tryall", w.fraction(8), 0) }
		w.inOrder(
			func() { p["b"].must(p["b"].do(Operation{"lock", secondPath, w.fraction(4), 0})) },
			func() { w.mayHold(try()) },
			func() { p["b"].must(p["b"].do(Operation{"lock", lockPath, w.fraction(8), allWait})) },
		)
		w.mayHold(try())
	}},
	{"two clients try to take two locks in different orders", func(w *World) {
		p := w.connect("a", "b")
		twice := func(p *Process, paths ...string) func() {
			return func() {
				for range 2 {
					w.mayHold(p.several("tryall", w.fraction(8), 0, paths...))
				}
			}
		}
		concurrently(twice(p["a"], lockPath, secondPath), twice(p["b"], secondPath, lockPath))
	}},
	{"readers take a second lock, one after the other, between two writers", func(w *World) {
		p := w.connect("a", "b", "c")
		w.inOrder(
			func() { p["a"].must(p["a"].rw("write", w.fraction(4))) },
			func() { p["b"].must(p["b"].several("allread", w.fraction(8), allWait)) },
			func() { p["c"].must(p["c"].rw("read", w.fraction(2))) },
			func() { p["a"].must(p["a"].rw("write", w.fraction(8))) },
			func() { w.mayHold(p["c"].several("tryallread", w.fraction(8), 0)) },
		)
	}},
	{"a writer joins after a reader of several locks has listed the queues", func(w *World) {
		p := w.connect("a", "b")
		p["a"].must(p["a"].several("allread", 0, allWait))
		p["b"].must(p["b"].rw("write", 0))
		time.Sleep(w.fraction(8)) // until the last heartbeats, which are transactions as well, were answered
		written := make(chan struct{})
		p["a"].link.Intercept(zktest.Rule{Op: "multi", Below: lockPath, Times: 1, Before: func(zktest.Request) {
			go func() {
				defer close(written)
				p["b"].must(p["b"].rw("write", w.fraction(8)))
			}()
			time.Sleep(w.fraction(32)) // until it has the lock
		}})
		p["a"].must(p["a"].several("allread", w.fraction(8), allWait))
		<-written
	}},
	{"a contender of another library joins after the queues were listed", func(w *World) {
		for _, a := range w.connect("a") {
			a.must(a.all(0, allWait))
			time.Sleep(w.fraction(8)) // until its last heartbeat, which is a transaction as well, was answered
			node := lockPath + "/_c_3f2a-lock-0000000000"
			created := make(chan struct{}) // later than usual if the session has ended
			a.link.Intercept(zktest.Rule{Op: "multi", Below: lockPath, Times: 1, Before: func(zktest.Request) {
				w.must(w.ensemble.Create(node, []byte("curator")))
				close(created)
			}})
			w.inOrder(
				func() { a.must(a.all(w.fraction(8), allWait)) },
				func() { <-created; time.Sleep(w.fraction(2)); w.must(w.inject("delete " + node)) },
			)
		}
	}},
	{"the session expires of a client that holds one lock and waits for another", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["b"].must(p["b"].do(Operation{"lock", lockPath, w.fraction(1), 0})) },
			func() { p["a"].must(p["a"].all(w.fraction(8), allWait)) },
			func() { time.Sleep(w.fraction(4)); w.must(p["a"].inject("expire")) },
		)
	}},
	{"an operator deletes the node of one of two locks that are held", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].all(4*w.opts.Timeout, allWait)) },
			func() { p["b"].must(p["b"].all(w.fraction(8), allWait)) },
			func() { time.Sleep(w.fraction(2)); w.must(p["a"].inject("delete " + secondPath)) }, // it is the first,
		)
	}},
}

// allWait is far more than the scenarios of several locks take.
const allWait = 2 * time.Minute

// all takes all of some locks, by default those at lockPath and secondPath.
func (p *Process) all(hold, wait time.Duration, paths ...string) error {
	return p.several("all", hold, wait, paths...)
}

// several runs an operation for several locks, by default for the locks at lockPath and secondPath.
func (p *Process) several(kind string, hold, wait time.Duration, paths ...string) error {
	if len(paths) == 0 {
		paths = []string{lockPath, secondPath}
	}
	return p.do(Operation{kind, strings.Join(paths, ","), hold, wait})
}

// mayHold reports an error of a try, unless another client holds the lock.
func (w *World) mayHold(err error) {
	if !errors.Is(err, lock.ErrLocked) {
		w.must(err)
	}
}

// multiMutex returns the locks of an operation for several, and the lock of all of them.
func (p *Process) multiMutex(o Operation) ([]*lock.Mutex, *lock.MultiMutex, error) {
	var mutexes []*lock.Mutex
	for i, path := range strings.Split(o.Path, ",") {
		m, err := p.mutex(path)
		if i == 0 && strings.HasSuffix(o.Kind, "read") {
			var rw *lock.RWMutex
			if rw, err = p.rwMutex(path); err == nil {
				m = rw.RLocker()
			}
		}
		if err != nil {
			return nil, nil, err
		}
		mutexes = append(mutexes, m)
	}
	all, err := lock.All(mutexes...)
	return mutexes, all, err
}

// doAll is do for an operation for several locks. The history has an attempt for each of the locks.
func (p *Process) doAll(o Operation) error {
	ctx, cancel := p.within(o.Wait)
	defer cancel()
	mutexes, all, err := p.multiMutex(o)
	if err != nil {
		return err
	}
	members := make([]history.Event, len(mutexes))
	for i, m := range mutexes {
		members[i] = history.Event{Contender: p.name, Attempt: p.world.recorder.NextAttempt(), Path: m.Path()}
		if !p.recordRequest(members[i], o.Kind, members[0].Attempt) {
			return nil
		}
	}
	take := all.Lock
	if strings.HasPrefix(o.Kind, "try") {
		take = all.TryLock
	}
	hold, err := take(ctx)
	if err != nil {
		for _, by := range members {
			p.recordFailed(by, err)
		}
		if p.crashed() {
			return nil
		}
		return err
	}
	var working sync.WaitGroup
	var notified []<-chan struct{}
	for i, m := range mutexes {
		claim := hold.Claim(m)
		members[i].Shared = claim.Shared()
		n, ok := p.recordGrantedAs(members[i], claim, hold) // the hold of all ends with the first loss
		if !ok {
			return nil
		}
		notified = append(notified, n)
		working.Go(func() { p.work(p.ctx, members[i], claim, withoutEpoch(claim), o.Hold) })
	}
	working.Wait()
	return p.releaseAll(hold, members, notified)
}

// releaseAll releases the locks of an operation for several.
func (p *Process) releaseAll(hold *lock.MultiHold, members []history.Event, notified []<-chan struct{}) error {
	for _, by := range members {
		if !p.record(by, history.Releasing) {
			return nil
		}
	}
	err := hold.Unlock(p.ctx)
	for i, by := range members {
		p.recordReleased(by, err)
		<-notified[i]
	}
	<-hold.Done()
	if !errors.Is(hold.Err(), recipes.ErrLost) {
		p.world.problemf("a hold of several locks was released, and its error is %w", hold.Err())
	}
	if !errors.Is(err, recipes.ErrLost) && !errors.Is(err, recipes.ErrUncertain) {
		p.world.must(err)
	}
	return nil
}

// several turns some operations of some plans with several paths into those for all of them.
func (g *generator) several() {
	if len(g.plan.Paths) < 2 || g.IntN(2) == 0 {
		return
	}
	for i, s := range g.plan.Steps {
		words := strings.Fields(s.Action)
		if len(words) != 4 || words[0] != "lock" || g.IntN(2) == 0 {
			continue
		}
		first := g.IntN(2)
		words[0], words[1] = "all", fmt.Sprintf("%s,%s", g.plan.Paths[first], g.plan.Paths[1-first])
		g.plan.Steps[i].Action = strings.Join(words, " ")
	}
}

// severalKinds turns some operations for several locks into tries, and some into those that read.
func (g *generator) severalKinds() {
	for i, s := range g.plan.Steps {
		if rest, found := strings.CutPrefix(s.Action, "all "); found {
			g.plan.Steps[i].Action = pick(g, "all", "all", "tryall", "allread", "tryallread") + " " + rest
		}
	}
}
