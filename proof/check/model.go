// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// patience bounds the search of porcupine. A search without a verdict by then is a finding.
const patience = 20 * time.Second

// The operations on a lock and on the register behind it.
type operation int

const (
	acquire   operation = iota // a contender acquires the lock
	share                      // a reader acquires it
	downgrade                  // a writer becomes a reader, unless it has ceased to hold the lock
	yield                      // the contender ceases to hold it
	accept                     // the register accepts a write
	reject                     // the register rejects a write
)

type input struct {
	operation operation
	token     history.ID
	shared    bool // of a yield: of a reader, or of a writer that may have become one. Of accept and reject: of a reader
}

// state is the state of one lock, or of one register.
type state struct {
	holder  history.ID // the exclusive holder's token, 0 if there is none
	readers int        // that hold the lock
	newest  history.ID // the greatest token of a writer so far
}

// lockAndRegister is the specification: one holder at a time or any number of readers, rising tokens, and a register that
// accepts no token older than the newest that it has accepted from a writer. Locks and registers are independent of each other.
var lockAndRegister = porcupine.Model{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		parts := map[string][]porcupine.Operation{}
		for _, op := range all {
			parts[op.Metadata.(string)] = append(parts[op.Metadata.(string)], op)
		}
		split := make([][]porcupine.Operation, 0, len(parts))
		for _, part := range parts {
			split = append(split, part)
		}
		return split
	},
	Init: func() any { return state{} },
	Step: func(before, in, _ any) (bool, any) {
		s, i := before.(state), in.(input)
		switch i.operation {
		case acquire:
			return s.holder == 0 && s.readers == 0 && i.token > s.newest, state{holder: i.token, newest: i.token}
		case share:
			return s.holder == 0 && i.token > s.newest, state{readers: s.readers + 1, newest: s.newest}
		case downgrade:
			if s.holder == i.token {
				return true, state{readers: 1, newest: s.newest}
			}
			return true, s
		case yield:
			if s.holder != i.token && i.shared {
				return s.readers > 0, state{holder: s.holder, readers: s.readers - 1, newest: s.newest}
			}
			return s.holder == i.token, state{newest: s.newest}
		case accept:
			if i.shared {
				return i.token >= s.newest, s
			}
			return i.token >= s.newest, state{newest: i.token}
		default:
			return i.token < s.newest, s
		}
	},
}

// Linearizable: porcupine finds an order in which a lock with a register behind it would have done the same.
var Linearizable = register(definition{
	name:    "linearizable",
	meaning: "porcupine finds an order in which one lock and one register would have done the same",
	counts:  "grants",
	judge:   linearizable,
	tests:   func(t *timeline) int { return len(t.holds) },
})

// linearizable searches for such an order with porcupine.
//
// Porcupine's clock is the line numbers of the contenders' events, which are in the order of recording. A holder yields
// the lock at some moment after it began to release it, or after it was notified of the loss. Its notification can be
// recorded after another contender recorded the consequences, although at the same instant, so it may have yielded at the
// first line of that instant. A holder that is excused may have yielded at any moment since its request.
func linearizable(t *timeline, found report) {
	var ops []porcupine.Operation
	for i, h := range t.holds {
		token, kind := h.granted.Token, acquire
		if h.granted.Shared {
			kind = share
		}
		ops = append(ops, porcupine.Operation{
			ClientId: i, Input: input{operation: kind, token: token}, Metadata: h.granted.Path,
			Call: int64(h.asked.Line), Return: int64(h.granted.Line),
		})
		downgrades := h.downgrading.Kind != ""
		if downgrades {
			ops = append(ops, porcupine.Operation{
				ClientId: i, Input: input{operation: downgrade, token: token}, Metadata: h.granted.Path,
				Call: int64(h.downgrading.Line), Return: math.MaxInt64,
			})
		}
		if from, ended := t.yields(h); ended {
			ops = append(ops, porcupine.Operation{
				ClientId: i, Input: input{yield, token, downgrades || h.granted.Shared}, Metadata: h.granted.Path,
				Call: int64(from), Return: math.MaxInt64,
			})
		}
	}
	for register, writes := range t.writes {
		for _, w := range writes {
			if !w.wrote.Fenced {
				continue
			}
			outcome := reject
			if w.wrote.Accepted {
				outcome = accept
			}
			ops = append(ops, porcupine.Operation{
				Input: input{outcome, w.wrote.Token, w.wrote.Shared}, Metadata: register, Call: int64(w.started), Return: int64(w.wrote.Line),
			})
		}
	}
	verdict := porcupine.CheckOperationsTimeout(lockAndRegister, ops, patience)
	if verdict != porcupine.Ok {
		found(fmt.Sprintf("porcupine's verdict is %s", verdict))
	}
}

// yields returns the first line at which the holder may already have ceased to hold the lock.
func (t *timeline) yields(h *hold) (line int, ended bool) {
	why, _ := h.excuse()
	switch {
	case why != notExcused:
		return h.asked.Line, true
	case h.notified.Cause == history.GivenUp && h.releasing.Kind != "":
		return h.releasing.Line, true
	case h.notified.Kind != "":
		return t.firstLine(h.notified.At), true
	}
	return 0, false
}
