// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// contention is the name of the scenario that runs on every ensemble.
const contention = "two processes contend"

// Scenarios contains the scripts that run with every cut.
var Scenarios = []Scenario{
	{"a client locks an unknown path and a known one", func(w *World) {
		for _, p := range w.connect("a") {
			p.must(p.lock(w.fraction(8), 0))
			p.must(p.lock(0, 0))
		}
	}},
	{contention, func(w *World) {
		p := w.connect("a", "b")
		concurrently(
			func() { p["a"].must(p["a"].lock(w.fraction(4), 0)); p["a"].must(p["a"].lock(0, 0)) },
			func() { p["b"].must(p["b"].lock(w.fraction(4), 0)); p["b"].must(p["b"].lock(0, 0)) },
		)
	}},
	{"two calls of one client contend", func(w *World) {
		for _, a := range w.connect("a") {
			concurrently(
				func() { a.must(a.lock(w.fraction(4), 0)) },
				func() { a.must(a.lock(w.fraction(4), 0)) },
				func() { a.must(a.lock(0, 0)) },
			)
		}
	}},
	{"two clients lock three paths at the same time", func(w *World) {
		for _, path := range []string{secondPath, thirdPath} { // replies to joins of these do not show the parent
			w.must(w.ensemble.Create(path, []byte("mine")))
		}
		var calls []func()
		for _, p := range w.connect("a", "b") {
			for i, path := range []string{lockPath, secondPath, thirdPath} {
				calls = append(calls, func() {
					for range 4 { // joins and releases of different paths come at the same time
						p.must(p.do(Operation{"lock", path, time.Duration(i) * 2 * defaultLatency, 40 * time.Second}))
					}
				})
			}
		}
		concurrently(calls...)
	}},
	{"a waiter is cancelled, and the one behind it continues to wait", func(w *World) {
		p := w.connect("a", "b", "c")
		w.inOrder(
			func() { p["a"].must(p["a"].lock(w.fraction(1), 0)) },
			func() { p["b"].mustFail(p["b"].lock(0, w.fraction(4)), context.DeadlineExceeded) },
			func() { p["c"].must(p["c"].lock(0, 0)) },
		)
	}},
	{"TryLock of a held lock, and again when it is free", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].lock(w.fraction(1), 0)) },
			func() { p["b"].mustFail(p["b"].try(), lock.ErrLocked) },
		)
		time.Sleep(2 * w.lag) // until it is seen to be free
		p["b"].must(p["b"].try())
	}},
	{"an observer follows a change of leader", func(w *World) {
		p := w.connect("a", "b", "o")
		w.inOrder(
			func() { p["o"].must(p["o"].observe("b")) },
			func() { p["a"].must(p["a"].do(Operation{"campaign", lockPath, w.fraction(2), 0})) },
			func() { p["b"].must(p["b"].do(Operation{"campaign", lockPath, w.fraction(2), 0})) },
		)
	}},
	{"two processes run work that returns, term after term", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].do(Operation{"run", lockPath, w.fraction(8), w.fraction(1)})) },
			func() { p["b"].must(p["b"].do(Operation{"run", lockPath, w.fraction(8), w.fraction(1)})) },
		)
	}},
	{"work panics under the lock", func(w *World) {
		for _, a := range w.connect("a") {
			a.panicUnderLock()
			a.must(a.lock(0, 0))
		}
	}},
	{"the parent is reaped between two locks", func(w *World) {
		p := w.connect("a", "b")
		for range 2 {
			p["a"].must(p["a"].lock(0, 0))
			w.must(w.inject("reap"))
		}
		p["b"].must(p["b"].lock(0, 0))
		p["a"].must(p["a"].lock(0, 0))
	}},
	{"the connection ends during a release, and the parent is reaped before the reconnection", func(w *World) {
		p := w.connect("a", "b")
		delayedRelease(w, p["a"], func() {
			p["b"].must(p["b"].lock(w.fraction(2), w.fraction(1)))
		})
	}},
	{"the same, and the next contender knows the former parent", func(w *World) {
		p := w.connect("a", "b", "c")
		p["b"].must(p["b"].lock(0, 0))
		delayedRelease(w, p["a"], func() {
			p["c"].must(p["c"].lock(0, w.fraction(1))) // so that the sequence numbers are the same as before
			p["b"].must(p["b"].lock(w.fraction(2), w.fraction(1)))
		})
	}},
	{"a lock is released while no server is reachable", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].lock(w.fraction(4), 0)) },
			func() { p["b"].must(p["b"].lock(0, 0)) },
			func() {
				time.Sleep(w.fraction(6))
				w.must(p["a"].inject("refuse"))
				w.must(p["a"].inject("cut"))
				time.Sleep(w.fraction(6))
				w.must(p["a"].inject("accept"))
			},
		)
	}},
	{"the parent has data of another program", func(w *World) {
		w.must(w.ensemble.Create(lockPath, []byte("mine")))
		contendTwice(w)
		if data, _, err := w.ensemble.Get(lockPath); err != nil || string(data) != "mine" {
			w.problemf("data of the parent became %q (%w)", data, err)
		}
	}},
	{"clients may create below the parent, and not write it", func(w *World) {
		for _, o := range w.connect("o") {
			o.must(o.lock(0, 0))
			o.retry(func(conn *zk.Conn) error {
				_, err := conn.SetACL(lockPath, zk.WorldACL(zk.PermRead|zk.PermCreate|zk.PermDelete), -1)
				if errors.Is(err, zk.ErrNoAuth) {
					return nil // it was carried out before
				}
				return err
			})
			o.must(o.lock(0, 0))
		}
		contendTwice(w)
	}},
	{"nodes have an ACL, and the clients have the credentials", func(w *World) {
		for _, name := range []string{"a", "b"} {
			p, err := w.process(name, func(_ *Process, o *recipes.Options) {
				o.Auth = []recipes.Auth{recipes.Digest("user", "word")}
				o.ACL = zk.DigestACL(zk.PermAll, "user", "word")
			})
			if w.must(err); err != nil {
				return
			}
			p.must(p.lock(w.fraction(4), 0))
		}
	}},
	{"another library's contender is ahead", func(w *World) {
		w.must(w.ensemble.Create(lockPath+"/_c_3f2a-lock-0000000000", []byte("curator")))
		w.must(w.ensemble.Create(lockPath+"/no contender", nil))
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].lock(w.fraction(8), 0)) },
			func() { p["b"].mustFail(p["b"].try(), lock.ErrLocked) },
			func() { time.Sleep(w.fraction(2)); w.must(w.inject("delete " + lockPath + "/_c_3f2a-lock-0000000000")) },
		)
	}},
	{"a waiter's session expires", func(w *World) {
		p := w.connect("a", "b", "c")
		w.inOrder(
			func() { p["a"].must(p["a"].lock(w.fraction(1), 0)) },
			func() { p["b"].must(p["b"].lock(w.fraction(8), 0)) },
			func() { p["c"].must(p["c"].lock(w.fraction(8), 0)) },
			func() { time.Sleep(w.fraction(3)); w.must(p["b"].inject("expire")) },
		)
	}},
	{"a holder's session expires", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].lock(w.fraction(1), 0)) },
			func() { p["b"].must(p["b"].lock(w.fraction(8), 0)) },
			func() { time.Sleep(w.fraction(3)); w.must(p["a"].inject("expire")) },
		)
		p["a"].must(p["a"].lock(0, 0))
	}},
	{"an operator deletes a holder's node", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].lock(w.fraction(1), 0)) },
			func() { p["b"].must(p["b"].lock(w.fraction(8), 0)) },
			func() { time.Sleep(w.fraction(3)); w.must(p["a"].inject("delete " + lockPath)) },
		)
	}},
	{"an operator deletes a waiter's node", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].lock(w.fraction(1), 0)) },
			func() { p["b"].must(p["b"].lock(w.fraction(8), 0)) },
			func() { time.Sleep(w.fraction(3)); w.must(p["b"].inject("delete " + lockPath)) },
		)
	}},
	{"an operator deletes a waiter's node a moment before it would be granted", func(w *World) {
		p := w.connect("a", "b", "c")
		w.inOrder(
			func() { p["a"].must(p["a"].lock(w.fraction(1), 0)) },
			func() { p["b"].must(p["b"].lock(w.fraction(8), 0)) },
			func() { p["c"].must(p["c"].lock(w.fraction(8), 0)) },
			func() {
				held, _ := p["a"].nodeOf(lockPath)
				w.must(p["b"].inject("delete " + lockPath))
				time.Sleep(8*defaultLatency + 2*w.lag)
				w.must(w.inject("delete " + held))
			},
		)
	}},
	{"an operator deletes the parent with everything below it", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].lock(w.fraction(1), 0)) },
			func() { p["b"].must(p["b"].lock(w.fraction(8), 0)) },
			func() { time.Sleep(w.fraction(3)); w.must(w.inject("delete-line " + lockPath)) },
		)
	}},
	{"the same, and the holder's client joins again under its earlier name", func(w *World) {
		p := w.connect("a", "b")
		p["a"].must(p["a"].lock(0, 0))
		w.inOrder(
			func() { p["a"].must(p["a"].lock(2*w.fraction(1), 0)) },
			func() { w.must(w.inject("delete-line " + lockPath)); p["b"].must(p["b"].lock(w.fraction(2), 0)) },
			func() { p["a"].must(p["a"].lock(0, 0)) },
		)
	}},
	{"the sequence numbers run out", func(w *World) {
		w.must(w.ensemble.Create(lockPath, nil))
		w.must(w.inject("plant-counter " + lockPath + " 2147483646"))
		p := w.connect("a", "b", "c")
		w.inOrder(
			func() { p["a"].must(p["a"].lock(w.fraction(3), 0)) },
			func() { p["b"].must(p["b"].lock(w.fraction(8), 0)) },
			func() { p["c"].must(p["c"].lock(w.fraction(8), 0)) },
			func() { p["a"].must(p["a"].lock(0, 0)) },
		)
	}},
	{"the sequence numbers are about to run out", func(w *World) {
		w.must(w.ensemble.Create(lockPath, nil))
		w.must(w.inject(fmt.Sprintf("plant-counter %s %d", lockPath, 1<<31-1<<20-1)))
		contendTwice(w)
	}},
	{"a waiting client is closed", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].lock(w.fraction(1), 0)) },
			func() { p["b"].mustFail(p["b"].lock(0, 0), recipes.ErrClosed) },
			func() { time.Sleep(w.fraction(8)); p["b"].client.Close() },
		)
	}},
	{"a holding client is closed", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].lock(w.fraction(1), 0)) },
			func() { p["b"].must(p["b"].lock(0, 0)) },
			func() { time.Sleep(w.fraction(8)); p["a"].client.Close() },
		)
	}},
	{"a holder is paused beyond its session timeout", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].lock(w.fraction(1), 0)) },
			func() { p["b"].must(p["b"].lock(w.fraction(2), 0)) },
			func() {
				time.Sleep(w.fraction(8))
				w.must(p["a"].inject("pause"))
				time.Sleep(2 * w.fraction(1))
				w.must(p["a"].inject("wake"))
			},
		)
	}},
	{"leaders claim epochs and write in them, one after the other", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].reign(w.fraction(8))); p["a"].must(p["a"].reign(0)) },
			func() { p["b"].must(p["b"].reign(w.fraction(8))) },
		)
	}},
	{"an operator ends a leader's epoch, and it resigns", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].reign(w.fraction(4))) },
			func() { p["b"].must(p["b"].reign(0)) },
			func() { time.Sleep(w.fraction(6)); w.must(w.inject("supersede " + lockPath)) },
		)
	}},
	{"an operator deletes the epochs, and their numbers restart", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].reign(w.fraction(4))) },
			func() { p["b"].must(p["b"].reign(0)) },
			func() { time.Sleep(w.fraction(6)); w.must(w.inject("forget " + lockPath)) },
		)
	}},
	{"a holder is killed", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].lock(w.fraction(1), 0)) },
			func() { p["b"].must(p["b"].lock(w.fraction(8), 0)) },
			func() { time.Sleep(w.fraction(8)); w.must(p["a"].inject("crash")) },
		)
	}},
	{"servers answer again that let a holder abandon its session, and its work stops slowly", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].do(Operation{"slowlock", lockPath, 2 * w.opts.Timeout, 0})) },
			func() { p["b"].must(p["b"].lock(w.fraction(8), 0)) },
			func() {
				time.Sleep(w.fraction(4))
				mute := p["a"].link.Intercept(zktest.Rule{Hold: zktest.ToClient})
				time.Sleep(w.fraction(32) * 23) // it has abandoned its session
				mute.Remove()
			},
		)
	}},
}

// contendTwice has two processes lock twice each.
func contendTwice(w *World) {
	p := w.connect("a", "b")
	w.inOrder(
		func() { p["a"].must(p["a"].lock(w.fraction(4), 0)); p["a"].must(p["a"].lock(0, 0)) },
		func() { p["b"].must(p["b"].lock(w.fraction(4), 0)); p["b"].must(p["b"].lock(0, 0)) },
	)
}

// delayedRelease has a lock and unlock without receiving the answer. Then the parent is reaped, others continue, and a
// reconnects and sends its delete again.
func delayedRelease(w *World, a *Process, others func()) {
	w.inOrder(
		func() { a.must(a.lock(w.fraction(4), 0)) },
		func() {
			time.Sleep(w.fraction(4) - w.fraction(16)) // the next frame is the release, as a rule
			w.must(a.inject("cut-after 1"))
			w.must(a.inject("refuse"))
			time.Sleep(w.fraction(16))
			w.must(w.inject("reap"))
			others()
		},
		func() { time.Sleep(w.fraction(3)); w.must(a.inject("accept")) },
	)
}
