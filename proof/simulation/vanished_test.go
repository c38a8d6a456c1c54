// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// An operator deletes a waiter's node and its predecessor at one instant. The queue that the waiter then reads contains no
// predecessor, and not the waiter itself. The order of the two notifications is random, so the test runs many times.
func TestDeletedNodeIsGrantedAtNoInstant(t *testing.T) {
	for i := range repeats(40) {
		runs.instants.Add(1)
		runAndCheck(t, fmt.Sprintf("both nodes are deleted, %d", i), "-run "+t.Name(), func() ([]history.Event, error) {
			w, err := newWorld(Options{
				Servers: 1, Timeout: 4 * time.Second, Tick: time.Second, Reap: time.Hour, Paths: []string{lockPath},
			}, "both nodes are deleted")
			if err != nil {
				return nil, err
			}
			p := w.connect("a", "b")
			w.inOrder(
				func() { p["a"].must(p["a"].lock(w.fraction(1), 0)) },
				func() { w.grantedOnExistingNode(p["b"]) },
				func() {
					time.Sleep(w.fraction(4) + time.Duration(i)*time.Millisecond)
					w.must(p["b"].inject("delete " + lockPath))
					w.must(p["a"].inject("delete " + lockPath))
				},
			)
			w.settle()
			w.close()
			return w.recorder.Events(), errors.Join(w.problems...)
		})
	}
}

// grantedOnExistingNode locks, and records a problem if the node of the grant does not exist.
func (w *World) grantedOnExistingNode(p *Process) {
	m, err := p.mutex(lockPath)
	if err != nil {
		w.must(err)
		return
	}
	hold, err := m.Lock(p.ctx)
	if err != nil {
		w.must(err)
		return
	}
	if _, _, err := w.ensemble.Get(hold.Path()); err != nil {
		w.problemf("lock %s: granted on a node that was gone: %w", lockPath, err)
	}
	_ = hold.Unlock(p.ctx) // the deletion may have ended the hold by now
}

// An operator deletes a waiter's node, and then its predecessor leaves with a hint. The waiter may have been queued for too short a
// time to watch its own node.
func TestDeletedNodeIsGrantedByNoHint(t *testing.T) {
	for i := range repeats(40) {
		runs.instants.Add(1)
		runAndCheck(t, fmt.Sprintf("the node is deleted, %d", i), "-run "+t.Name(), func() ([]history.Event, error) {
			w, err := newWorld(Options{
				Servers: 1, Timeout: 4 * time.Second, Tick: time.Second, Reap: time.Hour, Paths: []string{lockPath},
			}, "the node is deleted")
			if err != nil {
				return nil, err
			}
			p := w.connect("a", "b", "c", "d")
			for _, name := range []string{"a", "b", "c", "d"} {
				p[name].must(p[name].lock(0, 0)) // which learns the path
			}
			before := []time.Duration{20 * time.Millisecond, w.fraction(2)}[i%2]
			var contending sync.WaitGroup
			for _, contend := range []func(){
				func() { p["a"].must(p["a"].lock(before/2, 0)) },
				func() { w.holdUntilDeleted(p["b"], p["c"], before) },
				func() { w.grantedOnExistingNode(p["c"]) },
				func() { p["d"].must(p["d"].lock(0, 0)) },
			} {
				contending.Go(contend)
				time.Sleep(5 * time.Millisecond)
			}
			contending.Wait()
			w.settle()
			w.close()
			return w.recorder.Events(), errors.Join(w.problems...)
		})
	}
}

// holdUntilDeleted locks, and releases after hold, as soon as an operator has deleted the waiter's node.
func (w *World) holdUntilDeleted(holder, waiter *Process, hold time.Duration) {
	m, err := holder.mutex(lockPath)
	if err != nil {
		w.must(err)
		return
	}
	held, err := m.Lock(holder.ctx)
	if err != nil {
		w.must(err)
		return
	}
	time.Sleep(hold)
	w.must(waiter.inject("delete " + lockPath))
	w.must(held.Unlock(holder.ctx))
}
