// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
)

// permitClaims is the model of Permits.await and mark. The transaction that grants is carried out at
// its end. Of the phases, decides reads the queue, watches the contender directly ahead, waits for
// it.
type permitClaims struct {
	t     *testing.T
	limit int
}

const (
	decidesFirst phase = 'f' // decides, as the first waiter
	waitsFirst   phase = 'd' // waits as the first waiter, for any departure
	marks        phase = 'm' // about to send its grant
)

func (permitClaims) joined(*world, *actor) {}

func (x permitClaims) steps(m moves) {
	w, a := m.w, m.w.actors[m.client]
	exists, _ := w.at(a.node, len(w.log))
	switch a.phase {
	case decides:
		m.read(x.decide(watches))
	case decidesFirst:
		m.read(x.decide(waitsFirst))
	case watches:
		m.read((*world).watchAhead)
	case waits:
		if view, c := w.event(a); view > 0 {
			m.next(func(_ *world, a *actor) {
				a.view, a.phase = view, watches
				if c.kind == isDeleted {
					a.phase, a.d = decides, Decision{}
				}
			})
		}
	case waitsFirst: // any deletion that it has not seen wakes it
		i := slices.IndexFunc(w.log[a.view:], func(c change) bool { return c.kind == isDeleted })
		if i >= 0 {
			m.next(func(w *world, a *actor) {
				a.view += i + 1
				x.decide(waitsFirst)(w, a)
			})
		}
	case marks:
		if exists {
			m.commit(isWritten, holds)
		}
	case holds:
		m.commit(isDeleted, idle)
	case ends:
		if exists {
			m.commit(isDeleted, idle)
		}
		return
	case crashed:
		if exists {
			m.commit(isDeleted, crashed)
		}
		return
	}
	m.lose(ends)
	m.lose(crashed)
}

// decide lists the queue. A contender that does not fit is in phase otherwise then.
func (x permitClaims) decide(otherwise phase) func(w *world, a *actor) {
	return func(w *world, a *actor) {
		d, listed := NewOrder(w.listed(a.view)).Decide(w.nodes[a.node], x.limit)
		require.True(x.t, listed)
		switch {
		case d.Granted():
			a.become(marks)
		case otherwise == waitsFirst:
			a.phase, a.d = otherwise, Decision{}
		default:
			a.phase, a.d = otherwise, Decision{Ahead: slices.Clone(d.Ahead)}
		}
	}
}

// watchAhead reads the contender directly ahead, as await does.
func (w *world) watchAhead(a *actor) {
	exists, held := w.at(a.nearest(), a.view)
	switch {
	case !exists:
		a.phase, a.d = decides, Decision{}
	case held: // it lists the queue again, with a watch, before it waits
		a.phase, a.d = decidesFirst, Decision{}
	default:
		a.phase = waits
	}
}

// check requires that each marked node fits beside all nodes ahead of it: the permits held do not
// exceed the limit, and no holder has passed a waiter that does not fit.
func (x permitClaims) check(w *world) {
	sum := 0
	for node, m := range w.nodes {
		exists, held := w.at(node, len(w.log))
		if exists {
			sum += int(m.Weight)
		}
		if exists && held && sum > x.limit {
			require.Fail(x.t, "a holder's permits do not fit", w.key())
		}
	}
}

func TestNoInterleavingOfPermitsBreaksTheGrantRule(t *testing.T) {
	need.NoRaceDetector(t)
	states := 0
	for _, c := range []struct {
		limit   int
		weights [][]int32
	}{
		{2, [][]int32{{1}, {2}, {1}}},
		{2, [][]int32{{2, 2}, {2, 1}}},
		{3, [][]int32{{2}, {2}, {1}}},
	} {
		plans := make([][]Member, len(c.weights))
		for i, claims := range c.weights {
			for _, weight := range claims {
				plans[i] = append(plans[i], Member{Weight: weight})
			}
		}
		n := explore(t, plans, permitClaims{t, c.limit})
		t.Logf("limit %d, %v: %d states", c.limit, c.weights, n)
		states += n
	}
	t.Logf("%d states", states)
}
