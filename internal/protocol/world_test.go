// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A change is one committed transaction.
type change struct {
	node int // index of the node, in the order of creation
	kind changeKind
}

type changeKind byte

const (
	isCreated changeKind = '+'
	isDeleted changeKind = '-'
	isWritten changeKind = '~' // by its client: downgraded, or marked as held
)

// A phase is what a client is about to do. A model can have more of them.
type phase byte

const (
	idle    phase = 'i' // join, if its plan has another claim
	decides phase = 'l' // list
	watches phase = 'w' // read the nearest member that it knows, and watch it
	waits   phase = 'z' // for an event
	holds   phase = 'h' // release
	ends    phase = 'e' // does not believe that it holds; its node still exists
	crashed phase = 'x' // the same, for good
)

// An actor is one client.
type actor struct {
	phase phase
	done  int // claims that it has begun
	node  int // its own
	view  int // length of the log that it has seen
	d     Decision
}

// become begins a phase in which what the client has read no longer matters.
func (a *actor) become(p phase) { a.phase, a.view, a.d = p, 0, Decision{} }

// A world is one state: what the ensemble has committed, and what each client is about to do.
type world struct {
	log    []change
	nodes  []Member // in the order of creation
	actors []actor
}

func (w *world) clone() *world {
	return &world{slices.Clone(w.log), slices.Clone(w.nodes), slices.Clone(w.actors)}
}

func (w *world) key() string {
	var key []byte
	for _, c := range w.log {
		key = append(key, byte(c.kind), '0'+byte(c.node))
	}
	for _, m := range w.nodes {
		key = append(key, ' ', '0'+byte(m.Mode), '0'+byte(m.Weight))
	}
	for _, a := range w.actors {
		key = append(key, '|', byte(a.phase), '0'+byte(a.done), '0'+byte(a.node), '0'+byte(a.view))
		for _, m := range a.d.Ahead {
			key = append(key, '<', '0'+byte(nodeOf(m)))
		}
		if a.d.Complete {
			key = append(key, '!')
		}
	}
	return string(key)
}

func nodeOf(m Member) int { return int(m.Sequence) }

// at returns the state of a node as the first changes show it.
func (w *world) at(node, view int) (exists, written bool) {
	for _, c := range w.log[:view] {
		if c.node == node {
			exists, written = c.kind != isDeleted, written || c.kind == isWritten
		}
	}
	return exists, written
}

// listed returns the members that exist in a view.
func (w *world) listed(view int) (members []Member) {
	for node, m := range w.nodes {
		if exists, _ := w.at(node, view); exists {
			members = append(members, m)
		}
	}
	return members
}

// join creates the client's node, which the client knows then.
func (w *world) join(a *actor, claim Member) {
	a.node = len(w.nodes)
	claim.Name, claim.Sequence = fmt.Sprint(a.node), int32(a.node)
	w.nodes = append(w.nodes, claim)
	w.log = append(w.log, change{a.node, isCreated})
	a.become(decides)
	a.done, a.view = a.done+1, len(w.log)
}

// Moves are what one client can do next in a world.
type moves struct {
	w      *world
	client int
	visit  func(*world)
}

// next visits the world after a change.
func (m moves) next(change func(w *world, a *actor)) {
	n := m.w.clone()
	change(n, &n.actors[m.client])
	m.visit(n)
}

// commit changes the client's node.
func (m moves) commit(kind changeKind, then phase) {
	m.next(func(w *world, a *actor) {
		w.log = append(w.log, change{a.node, kind})
		a.become(then)
	})
}

// read shows the client the ensemble's log up to any point that is not before its last read.
func (m moves) read(read func(w *world, a *actor)) {
	for view := m.w.actors[m.client].view; view <= len(m.w.log); view++ {
		m.next(func(w *world, a *actor) {
			a.view = view
			read(w, a)
		})
	}
}

// lose ends the client's session, or the client.
func (m moves) lose(then phase) { m.next(func(_ *world, a *actor) { a.become(then) }) }

// A model is how clients use a grant rule.
type model interface {
	// joined is what the reply of a join means to the client.
	joined(w *world, a *actor)
	// steps makes all moves of a client that has joined.
	steps(m moves)
	// check fails the test if the world breaks a promise.
	check(w *world)
}

// explore visits every state that clients can reach which make these claims, one after the other. It
// requires that each state leads on until all claims are over, also if no further client loses its
// session, and returns how many states there are.
func explore(t *testing.T, plans [][]Member, by model) (states int) {
	t.Helper()
	first := &world{actors: make([]actor, len(plans))}
	for i := range first.actors {
		first.actors[i].phase = idle
	}
	seen := map[string]bool{}
	for open := []*world{first}; len(open) > 0; {
		w := open[len(open)-1]
		open = open[:len(open)-1]
		by.check(w)
		stuck := true
		for i, a := range w.actors {
			m := moves{w, i, func(n *world) {
				if then := n.actors[i].phase; then == a.phase || then != ends && then != crashed {
					stuck = false
				}
				if key := n.key(); !seen[key] {
					seen[key] = true
					open = append(open, n)
				}
			}}
			if a.phase != idle {
				by.steps(m)
			} else if a.done < len(plans[i]) {
				m.next(func(w *world, a *actor) {
					w.join(a, plans[i][a.done])
					by.joined(w, a)
				})
			}
		}
		if stuck {
			for i, a := range w.actors {
				require.True(t, a.phase == crashed || a.phase == idle && a.done == len(plans[i]), "deadlock: %s", w.key())
			}
		}
	}
	return len(seen)
}
