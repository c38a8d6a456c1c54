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
)

// line is the lock and election of all stories.
const line = "/l"

// Scenarios are the stories that are told with every cut.
var Scenarios = []Scenario{
	{"lock and unlock, on a path that is not known and on one that is", func(w *World) {
		for _, p := range w.cast("a") {
			p.must(p.lock(w.part(8), 0))
			p.must(p.lock(0, 0))
		}
	}},
	{"two contend", func(w *World) {
		p := w.cast("a", "b")
		together(
			func() { p["a"].must(p["a"].lock(w.part(4), 0)); p["a"].must(p["a"].lock(0, 0)) },
			func() { p["b"].must(p["b"].lock(w.part(4), 0)); p["b"].must(p["b"].lock(0, 0)) },
		)
	}},
	{"two calls of one client contend", func(w *World) {
		for _, a := range w.cast("a") {
			together(
				func() { a.must(a.lock(w.part(4), 0)) },
				func() { a.must(a.lock(w.part(4), 0)) },
				func() { a.must(a.lock(0, 0)) },
			)
		}
	}},
	{"a waiter is cancelled, and the one behind it waits on", func(w *World) {
		p := w.cast("a", "b", "c")
		w.inTurn(
			func() { p["a"].must(p["a"].lock(w.part(1), 0)) },
			func() { p["b"].mustFail(p["b"].lock(0, w.part(4)), context.DeadlineExceeded) },
			func() { p["c"].must(p["c"].lock(0, 0)) },
		)
	}},
	{"a lock that is held is tried, and again when it is free", func(w *World) {
		p := w.cast("a", "b")
		w.inTurn(
			func() { p["a"].must(p["a"].lock(w.part(1), 0)) },
			func() { p["b"].mustFail(p["b"].try(), lock.ErrLocked) },
		)
		time.Sleep(2 * w.lag) // until it is seen to be free
		p["b"].must(p["b"].try())
	}},
	{"a leader hands over, and it is observed", func(w *World) {
		p := w.cast("a", "b", "o")
		w.inTurn(
			func() { p["o"].must(p["o"].observe("b")) },
			func() { p["a"].must(p["a"].do(Ask{"campaign", line, w.part(2), 0})) },
			func() { p["b"].must(p["b"].do(Ask{"campaign", line, w.part(2), 0})) },
		)
	}},
	{"work that returns is run term after term, by two", func(w *World) {
		p := w.cast("a", "b")
		w.inTurn(
			func() { p["a"].must(p["a"].do(Ask{"run", line, w.part(8), w.part(1)})) },
			func() { p["b"].must(p["b"].do(Ask{"run", line, w.part(8), w.part(1)})) },
		)
	}},
	{"work panics", func(w *World) {
		for _, a := range w.cast("a") {
			a.panics()
			a.must(a.lock(0, 0))
		}
	}},
	{"the parent is reaped between two locks", func(w *World) {
		p := w.cast("a", "b")
		for range 2 {
			p["a"].must(p["a"].lock(0, 0))
			w.must(w.harm("reap"))
		}
		p["b"].must(p["b"].lock(0, 0))
		p["a"].must(p["a"].lock(0, 0))
	}},
	{"a release is under way when the connection ends, and the parent is reaped before there is another", func(w *World) {
		p := w.cast("a", "b")
		lateRelease(w, p["a"], func() {
			p["b"].must(p["b"].lock(w.part(2), w.part(1)))
		})
	}},
	{"the same, and who joins next knows the parent from before", func(w *World) {
		p := w.cast("a", "b", "c")
		p["b"].must(p["b"].lock(0, 0))
		lateRelease(w, p["a"], func() {
			p["c"].must(p["c"].lock(0, w.part(1))) // so that the numbers are the same as before
			p["b"].must(p["b"].lock(w.part(2), w.part(1)))
		})
	}},
	{"a lock is released while no server can be reached", func(w *World) {
		p := w.cast("a", "b")
		w.inTurn(
			func() { p["a"].must(p["a"].lock(w.part(4), 0)) },
			func() { p["b"].must(p["b"].lock(0, 0)) },
			func() {
				time.Sleep(w.part(6))
				w.must(p["a"].harm("refuse"))
				w.must(p["a"].harm("cut"))
				time.Sleep(w.part(6))
				w.must(p["a"].harm("accept"))
			},
		)
	}},
	{"the parent has somebody else's data", func(w *World) {
		w.must(w.ensemble.Create(line, []byte("mine")))
		contendTwice(w)
		if data, _, err := w.ensemble.Get(line); err != nil || string(data) != "mine" {
			w.failf("the parent's data became %q (%w)", data, err)
		}
	}},
	{"the parent may be joined and not be written", func(w *World) {
		for _, o := range w.cast("o") {
			o.must(o.lock(0, 0))
			o.patiently(func(conn *zk.Conn) error {
				_, err := conn.SetACL(line, zk.WorldACL(zk.PermRead|zk.PermCreate|zk.PermDelete), -1)
				if errors.Is(err, zk.ErrNoAuth) {
					return nil // it was carried out before
				}
				return err
			})
			o.must(o.lock(0, 0))
		}
		contendTwice(w)
	}},
	{"nodes are closed to strangers, and credentials open them", func(w *World) {
		for _, name := range []string{"a", "b"} {
			p, err := w.process(name, func(_ *Process, o *recipes.Options) {
				o.Auth = []recipes.Auth{recipes.Digest("user", "word")}
				o.ACL = zk.DigestACL(zk.PermAll, "user", "word")
			})
			if w.must(err); err != nil {
				return
			}
			p.must(p.lock(w.part(4), 0))
		}
	}},
	{"another library's contender is ahead", func(w *World) {
		w.must(w.ensemble.Create(line+"/_c_3f2a-lock-0000000000", []byte("somebody")))
		w.must(w.ensemble.Create(line+"/neither here nor there", nil))
		p := w.cast("a", "b")
		w.inTurn(
			func() { p["a"].must(p["a"].lock(w.part(8), 0)) },
			func() { p["b"].mustFail(p["b"].try(), lock.ErrLocked) },
			func() { time.Sleep(w.part(2)); w.must(w.harm("delete " + line + "/_c_3f2a-lock-0000000000")) },
		)
	}},
	{"a waiter's session expires", func(w *World) {
		p := w.cast("a", "b", "c")
		w.inTurn(
			func() { p["a"].must(p["a"].lock(w.part(1), 0)) },
			func() { p["b"].must(p["b"].lock(w.part(8), 0)) },
			func() { p["c"].must(p["c"].lock(w.part(8), 0)) },
			func() { time.Sleep(w.part(3)); w.must(p["b"].harm("expire")) },
		)
	}},
	{"a holder's session expires", func(w *World) {
		p := w.cast("a", "b")
		w.inTurn(
			func() { p["a"].must(p["a"].lock(w.part(1), 0)) },
			func() { p["b"].must(p["b"].lock(w.part(8), 0)) },
			func() { time.Sleep(w.part(3)); w.must(p["a"].harm("expire")) },
		)
		p["a"].must(p["a"].lock(0, 0))
	}},
	{"a holder's node is deleted by hand", func(w *World) {
		p := w.cast("a", "b")
		w.inTurn(
			func() { p["a"].must(p["a"].lock(w.part(1), 0)) },
			func() { p["b"].must(p["b"].lock(w.part(8), 0)) },
			func() { time.Sleep(w.part(3)); w.must(p["a"].harm("delete " + line)) },
		)
	}},
	{"a waiter's node is deleted by hand", func(w *World) {
		p := w.cast("a", "b")
		w.inTurn(
			func() { p["a"].must(p["a"].lock(w.part(1), 0)) },
			func() { p["b"].must(p["b"].lock(w.part(8), 0)) },
			func() { time.Sleep(w.part(3)); w.must(p["b"].harm("delete " + line)) },
		)
	}},
	{"a waiter's node is deleted by hand a moment before it would be its turn", func(w *World) {
		p := w.cast("a", "b", "c")
		w.inTurn(
			func() { p["a"].must(p["a"].lock(w.part(1), 0)) },
			func() { p["b"].must(p["b"].lock(w.part(8), 0)) },
			func() { p["c"].must(p["c"].lock(w.part(8), 0)) },
			func() {
				held, _ := p["a"].nodeOf(line)
				w.must(p["b"].harm("delete " + line))
				time.Sleep(8*near + 2*w.lag)
				w.must(w.harm("delete " + held))
			},
		)
	}},
	{"the parent is deleted by hand, with all that is below it", func(w *World) {
		p := w.cast("a", "b")
		w.inTurn(
			func() { p["a"].must(p["a"].lock(w.part(1), 0)) },
			func() { p["b"].must(p["b"].lock(w.part(8), 0)) },
			func() { time.Sleep(w.part(3)); w.must(w.harm("delete-line " + line)) },
		)
	}},
	{"the same, and the holder's client joins again with the name that its node had", func(w *World) {
		p := w.cast("a", "b")
		p["a"].must(p["a"].lock(0, 0))
		w.inTurn(
			func() { p["a"].must(p["a"].lock(2*w.part(1), 0)) },
			func() { w.must(w.harm("delete-line " + line)); p["b"].must(p["b"].lock(w.part(2), 0)) },
			func() { p["a"].must(p["a"].lock(0, 0)) },
		)
	}},
	{"the numbers run out", func(w *World) {
		w.must(w.ensemble.Create(line, nil))
		w.must(w.harm("plant-counter " + line + " 2147483646"))
		p := w.cast("a", "b", "c")
		w.inTurn(
			func() { p["a"].must(p["a"].lock(w.part(3), 0)) },
			func() { p["b"].must(p["b"].lock(w.part(8), 0)) },
			func() { p["c"].must(p["c"].lock(w.part(8), 0)) },
			func() { p["a"].must(p["a"].lock(0, 0)) },
		)
	}},
	{"the numbers are about to run out", func(w *World) {
		w.must(w.ensemble.Create(line, nil))
		w.must(w.harm(fmt.Sprintf("plant-counter %s %d", line, 1<<31-1<<20-1)))
		contendTwice(w)
	}},
	{"a client that waits is closed", func(w *World) {
		p := w.cast("a", "b")
		w.inTurn(
			func() { p["a"].must(p["a"].lock(w.part(1), 0)) },
			func() { p["b"].mustFail(p["b"].lock(0, 0), recipes.ErrClosed) },
			func() { time.Sleep(w.part(8)); p["b"].client.Close() },
		)
	}},
	{"a client that holds the lock is closed", func(w *World) {
		p := w.cast("a", "b")
		w.inTurn(
			func() { p["a"].must(p["a"].lock(w.part(1), 0)) },
			func() { p["b"].must(p["b"].lock(0, 0)) },
			func() { time.Sleep(w.part(8)); p["a"].client.Close() },
		)
	}},
	{"a holder is paused past its session", func(w *World) {
		p := w.cast("a", "b")
		w.inTurn(
			func() { p["a"].must(p["a"].lock(w.part(1), 0)) },
			func() { p["b"].must(p["b"].lock(w.part(2), 0)) },
			func() {
				time.Sleep(w.part(8))
				w.must(p["a"].harm("pause"))
				time.Sleep(2 * w.part(1))
				w.must(p["a"].harm("wake"))
			},
		)
	}},
	{"leaders claim epochs and write in them, one after the other", func(w *World) {
		p := w.cast("a", "b")
		w.inTurn(
			func() { p["a"].must(p["a"].reign(w.part(8))); p["a"].must(p["a"].reign(0)) },
			func() { p["b"].must(p["b"].reign(w.part(8))) },
		)
	}},
	{"a leader's epoch is ended by hand, and it resigns", func(w *World) {
		p := w.cast("a", "b")
		w.inTurn(
			func() { p["a"].must(p["a"].reign(w.part(4))) },
			func() { p["b"].must(p["b"].reign(0)) },
			func() { time.Sleep(w.part(6)); w.must(w.harm("supersede " + line)) },
		)
	}},
	{"the count of epochs is deleted by hand, and begins anew", func(w *World) {
		p := w.cast("a", "b")
		w.inTurn(
			func() { p["a"].must(p["a"].reign(w.part(4))) },
			func() { p["b"].must(p["b"].reign(0)) },
			func() { time.Sleep(w.part(6)); w.must(w.harm("forget " + line)) },
		)
	}},
	{"a holder is killed", func(w *World) {
		p := w.cast("a", "b")
		w.inTurn(
			func() { p["a"].must(p["a"].lock(w.part(1), 0)) },
			func() { p["b"].must(p["b"].lock(w.part(8), 0)) },
			func() { time.Sleep(w.part(8)); w.must(p["a"].harm("crash")) },
		)
	}},
}

// contendTwice has two processes lock twice each.
func contendTwice(w *World) {
	p := w.cast("a", "b")
	w.inTurn(
		func() { p["a"].must(p["a"].lock(w.part(4), 0)); p["a"].must(p["a"].lock(0, 0)) },
		func() { p["b"].must(p["b"].lock(w.part(4), 0)); p["b"].must(p["b"].lock(0, 0)) },
	)
}

// lateRelease has a lock and unlock, and not be told that it has; the parent be reaped; somebody else go on; and a come
// back, to delete its node once more.
func lateRelease(w *World, a *Process, others func()) {
	w.inTurn(
		func() { a.must(a.lock(w.part(4), 0)) },
		func() {
			time.Sleep(w.part(4) - w.part(16)) // the next frame is the release, as a rule
			w.must(a.harm("cut-after 1"))
			w.must(a.harm("refuse"))
			time.Sleep(w.part(16))
			w.must(w.harm("reap"))
			others()
		},
		func() { time.Sleep(w.part(3)); w.must(a.harm("accept")) },
	)
}
