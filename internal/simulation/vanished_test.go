// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// A waiter's node and the one ahead of it are deleted by hand at one instant. The line that the waiter is then shown has
// nobody ahead of it, and not the waiter itself. Which of the two answers that tell it comes first is left to chance, so
// it is told some times.
func TestAtNoInstantIsAPlaceGrantedWhoseNodeIsGone(t *testing.T) {
	for i := range 40 {
		tried.instants.Add(1)
		judged(t, fmt.Sprintf("both nodes vanish, %d", i), "-run "+t.Name(), func() ([]history.Event, error) {
			w, err := newWorld(Options{
				Servers: 1, Timeout: 4 * time.Second, Tick: time.Second, Reap: time.Hour, Paths: []string{line},
			}, "both nodes vanish")
			if err != nil {
				return nil, err
			}
			p := w.cast("a", "b")
			w.inTurn(
				func() { p["a"].must(p["a"].lock(w.part(1), 0)) },
				func() { w.grantedOnALivingNode(p["b"]) },
				func() {
					time.Sleep(w.part(4) + time.Duration(i)*time.Millisecond)
					w.must(p["b"].harm("delete " + line))
					w.must(p["a"].harm("delete " + line))
				},
			)
			w.settle()
			w.close()
			return w.recorder.Events(), errors.Join(w.problems...)
		})
	}
}

// grantedOnALivingNode locks, and looks whether what was granted stands on a node.
func (w *World) grantedOnALivingNode(p *Process) {
	m, err := p.mutex(line)
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
		w.failf("granted on a node that was gone: %w", err)
	}
	_ = hold.Unlock(p.ctx) // it may have been lost by now, which is what this is about
}
