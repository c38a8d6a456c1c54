// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// Linearizable: porcupine finds an order in which a lock with a register behind it would have done the same.
var Linearizable = register(definition{
	name:    "linearizable",
	meaning: "porcupine finds an order in which one lock and one register would have done the same",
	counts:  "grants",
	judge: func(t *timeline, found report) {
		for _, w := range t.windows() {
			if verdict := porcupine.CheckOperationsTimeout(w.model(), w.operations, patience); verdict != porcupine.Ok {
				found(fmt.Sprintf("porcupine's verdict on %s, lines %d to %d, is %s", w.object, w.first(), w.last(), verdict))
			}
		}
	},
	tests: func(t *timeline) int { return len(t.holds) },
})

// patience bounds the search of porcupine in one window. A search without a verdict by then is a finding.
const patience = 20 * time.Second

// leastWindow is how many operations a window has at least, so that it is cut after.
const leastWindow = 200

// A window is a part of the history of one lock or one register in which all of its operations begin and end. Porcupine's search
// grows with the square of the length.
type window struct {
	object     string
	begins     state
	operations []porcupine.Operation
}

func (w *window) model() porcupine.Model {
	model := lockAndRegister
	model.Init = func() any { return w.begins }
	return model
}

// first returns the line at which the window begins.
func (w *window) first() int64 { return w.operations[0].Call }

// last returns the last line at which an operation of the window begins.
func (w *window) last() int64 {
	return slices.MaxFunc(w.operations, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) }).Call
}

// Visualize writes porcupine's view of a history, in HTML: of the first window that has no order, or else of the longest one. It writes
// nothing if the history has no operations, or is not well-formed.
func Visualize(events []history.Event, to io.Writer) error {
	t, malformed := newTimeline(events)
	if len(malformed) > 0 {
		return nil
	}
	windows := t.windows()
	if len(windows) == 0 {
		return nil
	}
	slices.SortStableFunc(windows, func(a, b *window) int { return len(b.operations) - len(a.operations) })
	shown := windows[0]
	for _, w := range windows {
		if porcupine.CheckOperationsTimeout(w.model(), w.operations, patience) != porcupine.Ok {
			shown = w
			break
		}
	}
	_, info := porcupine.CheckOperationsVerbose(shown.model(), shown.operations, patience)
	if err := porcupine.Visualize(shown.model(), info, to); err != nil {
		return fmt.Errorf("visualize %s, lines %d to %d: %w", shown.object, shown.first(), shown.last(), err)
	}
	return nil
}

// windows returns the operations on each lock and each register, in parts.
//
// Porcupine's clock is the line numbers of the contenders' events, which are in the order of recording.
func (t *timeline) windows() (all []*window) {
	holds := map[string][]*hold{}
	for _, h := range t.holds {
		holds[h.resource()] = append(holds[h.resource()], h)
	}
	objects := map[string][]porcupine.Operation{}
	for resource, of := range holds {
		objects[resource] = append(objects[resource], t.lockOperations(of)...)
	}
	for register, writes := range t.writes {
		objects[register] = append(objects[register], registerOperations(writes)...)
	}
	for object, operations := range objects {
		all = append(all, cut(object, operations)...)
	}
	slices.SortFunc(all, func(a, b *window) int {
		return cmp.Or(cmp.Compare(a.object, b.object), cmp.Compare(a.first(), b.first()))
	})
	return all
}

// lockOperations returns the operations of the holds of one lock.
//
// A holder yields the lock at some moment after it began to release it, or after it was notified of the loss: see yields. The history does
// not have that moment. But in each order that the model permits, acquisitions have the order of their tokens, and a holder has yielded
// before a conflicting acquisition with a greater token. So each yield has ended when the first such acquisition has, and that
// acquisition has not begun before the yield: the search loses no order by that, and an operation overlaps with few
// others.
func (t *timeline) lockOperations(holds []*hold) (operations []porcupine.Operation) {
	slices.SortFunc(holds, func(a, b *hold) int { return cmp.Compare(a.granted.Token, b.granted.Token) })
	const none = math.MaxInt64
	until := make([]struct{ any, exclusive int64 }, len(holds)+1) // the first lines at which holds with a greater token were granted
	until[len(holds)].any, until[len(holds)].exclusive = none, none
	for i, h := range slices.Backward(holds) {
		until[i] = until[i+1]
		until[i].any = min(until[i].any, int64(h.granted.Line))
		if !h.granted.Shared {
			until[i].exclusive = min(until[i].exclusive, int64(h.granted.Line))
		}
	}
	var yielded struct{ all, exclusive int64 } // the last lines at which holds with a smaller token may have yielded
	for i, h := range holds {
		token, downgrades := h.granted.Token, h.downgrading.Kind != ""
		add := func(in input, call, end int64) {
			if end < call {
				end = none // no order is possible: porcupine says so
			}
			operations = append(operations, porcupine.Operation{ClientId: i, Input: in, Call: call, Return: end})
		}
		kind, after, ends := acquire, yielded.all, until[i+1].any
		if h.granted.Shared {
			kind, after = share, yielded.exclusive
		}
		shares := downgrades || h.granted.Shared
		if shares {
			ends = until[i+1].exclusive
		}
		begun := max(int64(t.begun(h)), after)
		if begun > int64(h.granted.Line) {
			begun = int64(t.begun(h))
		}
		add(input{operation: kind, token: token}, begun, int64(h.granted.Line))
		if downgrades {
			add(input{operation: downgrade, token: token}, int64(h.downgrading.Line), ends)
		}
		from, ended := t.yields(h)
		if !ended {
			continue
		}
		add(input{yield, token, shares}, int64(from), ends)
		yielded.all = max(yielded.all, int64(from))
		if !shares {
			yielded.exclusive = max(yielded.exclusive, int64(from))
		}
	}
	return operations
}

// registerOperations returns the writes to a register that checks tokens.
func registerOperations(writes []write) (operations []porcupine.Operation) {
	for _, w := range writes {
		if !w.wrote.Fenced {
			continue
		}
		outcome := reject
		if w.wrote.Accepted {
			outcome = accept
		}
		operations = append(operations, porcupine.Operation{
			Input: input{outcome, w.wrote.Token, w.wrote.Shared}, Call: int64(w.started), Return: int64(w.wrote.Line),
		})
	}
	return operations
}

// cut parts the operations where none is in progress and no reader holds the lock: there the state is the same in each order that
// the model permits.
func cut(object string, operations []porcupine.Operation) (windows []*window) {
	slices.SortFunc(operations, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	begin, ended := 0, int64(0)
	now, begins := known{open: map[history.ID]int{}, shares: map[history.ID]bool{}}, state{}
	for i, op := range operations {
		if op.Call > ended && i-begin >= leastWindow {
			if behind, certain := now.state(); certain {
				windows = append(windows, &window{object, begins, operations[begin:i]})
				begin, begins = i, behind
			}
		}
		ended = max(ended, op.Return)
		now.add(op.Input.(input))
	}
	if begin < len(operations) {
		windows = append(windows, &window{object, begins, operations[begin:]})
	}
	return windows
}

// known is what follows from operations that have ended, whatever their order was.
type known struct {
	newest history.ID
	open   map[history.ID]int  // by token, acquisitions less yields, if that is not 0
	shares map[history.ID]bool // tokens of readers, and of writers that began to downgrade
}

func (k *known) add(in input) {
	switch in.operation {
	case acquire:
		k.newest = max(k.newest, in.token)
		k.count(in.token, 1)
	case share:
		k.shares[in.token] = true
		k.count(in.token, 1)
	case downgrade:
		k.shares[in.token] = true
	case yield:
		k.count(in.token, -1)
	case accept:
		if !in.shared {
			k.newest = max(k.newest, in.token)
		}
	}
}

func (k *known) count(token history.ID, by int) {
	if k.open[token] += by; k.open[token] == 0 {
		delete(k.open, token)
	}
}

// state returns the state, and whether it is certain: it has at most one holder, which is a writer.
func (k *known) state() (s state, certain bool) {
	s.newest = k.newest
	for token := range k.open {
		if len(k.open) > 1 || k.shares[token] {
			return state{}, false
		}
		s.holder = token
	}
	return s, true
}

// begun returns the first line at which the hold may have been asked for. The owner of a partition records that only with the grant,
// which it may do after a pause: its node shows that the library had asked before.
func (t *timeline) begun(h *hold) int {
	if h.contender == nil || h.contender.created.At >= h.asked.At {
		return h.asked.Line
	}
	return t.firstLine(h.contender.created.At)
}

// yields returns the first line at which the holder may already have ceased to hold the lock.
func (t *timeline) yields(h *hold) (line int, ended bool) {
	why, _ := h.excuse()
	switch {
	case why != notExcused:
		return t.begun(h), true
	case h.notified.Cause == history.GivenUp && h.releasing.Kind != "":
		return h.releasing.Line, true
	case h.notified.Kind != "":
		return t.firstLine(h.notified.At), true
	}
	return 0, false
}
