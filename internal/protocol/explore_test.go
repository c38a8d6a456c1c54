// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
)

// readersAndWriters is the model of await: after the listing, a client reads the nearest member of
// its decision and watches it.
type readersAndWriters struct {
	t     *testing.T
	plans [][]Member
}

// shares is the phase of a client whose claim was downgraded: it holds, and is shared.
const shares phase = 'd'

// joined grants the claim of a client that is alone, as the reply shows.
func (readersAndWriters) joined(w *world, a *actor) {
	if len(w.listed(a.view)) == 1 {
		a.become(holds)
	}
}

func (x readersAndWriters) steps(m moves) {
	w, a := m.w, m.w.actors[m.client]
	switch a.phase {
	case decides:
		m.read((*world).list)
	case watches:
		m.read((*world).watch)
	case holds, shares:
		m.commit(isDeleted, idle) // it stops believing first
		if a.phase == holds && w.nodes[a.node].Mode == Write {
			m.commit(isWritten, shares)
		}
	case ends:
		m.commit(isDeleted, idle) // the ensemble, when the session expires
		return
	case crashed:
		if exists, _ := w.at(a.node, len(w.log)); exists {
			m.commit(isDeleted, crashed)
		}
		return
	case waits:
		if view, c := w.event(a); view > 0 {
			m.next(func(_ *world, a *actor) { a.wake(view, c) })
		}
	}
	m.lose(ends)
	if a.done < len(x.plans[m.client]) {
		m.lose(crashed)
	}
}

func (w *world) list(a *actor) {
	d, listed := NewOrder(w.listed(a.view)).decideWhole(w.nodes[a.node])
	switch {
	case !listed:
		a.phase = ends // deleted
	case d.Granted():
		a.become(holds)
	default:
		a.phase, a.d = watches, Decision{Ahead: slices.Clone(d.Ahead), Complete: d.Complete}
	}
}

// watch reads the nearest member, as await does.
func (w *world) watch(a *actor) {
	exists, shared := w.at(a.nearest(), a.view)
	a.phase = waits
	if !exists || shared && w.nodes[a.node].Mode == Read {
		a.passed()
	}
}

// nearest returns the node that the client watches.
func (a *actor) nearest() int { return nodeOf(a.d.Ahead[len(a.d.Ahead)-1]) }

// passed removes the nearest member, which is gone.
func (a *actor) passed() {
	a.d.Ahead = slices.Clone(a.d.Ahead)
	a.d.WithoutLast()
	switch {
	case !a.d.Granted():
		a.phase = watches
	case a.d.Complete:
		a.become(holds)
	default:
		a.phase = decides
	}
}

// event returns the next change of the node that the client watches, with the view that shows it,
// 0 if there is none.
func (w *world) event(a actor) (view int, c change) {
	for i, c := range w.log[a.view:] {
		if c.node == a.nearest() {
			return a.view + i + 1, c
		}
	}
	return 0, change{}
}

// wake shows the client the event that it has waited for.
func (a *actor) wake(view int, c change) {
	a.view, a.phase = view, watches
	if c.kind == isDeleted {
		a.passed()
	}
}

// check requires that writers hold alone and that no reader has passed a waiting writer.
func (x readersAndWriters) check(w *world) {
	for i, a := range w.actors {
		if a.phase != holds && a.phase != shares {
			continue
		}
		writes := a.phase == holds && w.nodes[a.node].Mode != Read
		for j, b := range w.actors {
			if i != j && writes && (b.phase == holds || b.phase == shares) {
				require.Fail(x.t, "two holders, one of them a writer", w.key())
			}
		}
		for node, m := range w.nodes[:a.node] {
			exists, shared := w.at(node, len(w.log))
			if exists && (m.Mode != Read && !shared || writes) {
				require.Fail(x.t, "a holder has passed a contender", w.key())
			}
		}
	}
}

func TestNoInterleavingOfReadersAndWritersBreaksTheGrantRules(t *testing.T) {
	need.NoRaceDetector(t)
	states := 0
	for _, modes := range [][][]Mode{
		{{Write, Read}, {Read, Write}},
		{{Write}, {Read}, {Write}},
		{{Write}, {Read}, {Read}},
		{{Exclusive}, {Write}, {Read}},
		{{Read, Write}, {Write}, {Read}},
	} {
		plans := make([][]Member, len(modes))
		for i, claims := range modes {
			for _, mode := range claims {
				plans[i] = append(plans[i], Member{Mode: mode})
			}
		}
		n := explore(t, plans, readersAndWriters{t, plans})
		t.Logf("%v: %d states", modes, n)
		states += n
	}
	t.Logf("%d states", states)
}
