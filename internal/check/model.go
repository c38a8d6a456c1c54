// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// patience bounds how long porcupine searches. A verdict that is not reached by then is a finding.
const patience = 20 * time.Second

// What can happen to a lock and to the register behind it.
type deed int

const (
	acquire deed = iota // a contender comes to hold the lock
	yield               // it does not any more
	admit               // the register accepts a write
	refuse              // the register refuses one
)

type input struct {
	deed  deed
	token history.ID
}

// state is that of one lock, or of one register.
type state struct {
	holder history.ID // token of who holds the lock, 0 if nobody does
	newest history.ID // the largest token so far
}

// lockAndRegister is the specification: one holder at a time, tokens that rise, and a register that admits no token
// older than the newest that it has admitted. Locks and registers are apart from each other.
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
		switch i.deed {
		case acquire:
			return s.holder == 0 && i.token > s.newest, state{holder: i.token, newest: i.token}
		case yield:
			return s.holder == i.token, state{newest: s.newest}
		case admit:
			return i.token >= s.newest, state{newest: i.token}
		default:
			return i.token < s.newest, s
		}
	},
}

// linearizable asks porcupine.
//
// Its clock are the lines of what contenders saw, which stand in the order in which it was told. A holder does not hold
// the lock any more from some moment on after it began to give it up or was told that it lost it. What told it may have
// been seen later than others saw the consequences, but at the same instant: so that moment may be as early as the first
// line of that instant. For holders that are excused it may be any since they asked.
func linearizable(s *story) []Finding {
	var ops []porcupine.Operation
	for i, h := range s.holds {
		token := h.granted.Token
		ops = append(ops, porcupine.Operation{
			ClientId: i, Input: input{acquire, token}, Metadata: h.granted.Path,
			Call: int64(h.asked.Line), Return: int64(h.granted.Line),
		})
		if from, ended := s.yields(h); ended {
			ops = append(ops, porcupine.Operation{
				ClientId: i, Input: input{yield, token}, Metadata: h.granted.Path,
				Call: int64(from), Return: math.MaxInt64,
			})
		}
	}
	for register, writes := range s.writes {
		for _, w := range writes {
			if !w.wrote.Fenced {
				continue
			}
			deed := refuse
			if w.wrote.Accepted {
				deed = admit
			}
			ops = append(ops, porcupine.Operation{
				Input: input{deed, w.wrote.Token}, Metadata: register, Call: int64(w.begun), Return: int64(w.wrote.Line),
			})
		}
	}
	verdict := porcupine.CheckOperationsTimeout(lockAndRegister, ops, patience)
	if verdict == porcupine.Ok {
		return nil
	}
	return []Finding{{Rule: Linearizable, Text: fmt.Sprintf("porcupine says %s", verdict)}}
}

// yields is the first line at which the holder may not hold the lock any more.
func (s *story) yields(h *hold) (line int, ended bool) {
	why, _ := h.excuse()
	switch {
	case why != "":
		return h.asked.Line, true
	case h.told.Cause == history.GivenUp && h.releasing.Kind != "":
		return h.releasing.Line, true
	case h.told.Kind != "":
		return s.firstLine(h.told.At), true
	}
	return 0, false
}
