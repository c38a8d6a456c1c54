// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// slotLimit is the limit of slots, until a scenario or a step resizes them.
const slotLimit = 2

// closedWithSlot is the name of a scenario. With ClickHouse Keeper, a cut ends the session, so that the client may be closed while it
// waits again.
const closedWithSlot = "a holder of a slot is killed, and a client with another is closed"

// The operations of slots: the work of "slowslot" stops slowly, and the digit of "slots" is the limit that it sets.
func init() {
	sessionKept = append(sessionKept, closedWithSlot)
	operations["slot"] = operation{acquire: slotting((*lock.Slots).Acquire), during: (*Process).workUnder}
	operations["tryslot"] = operation{acquire: slotting((*lock.Slots).TryAcquire), during: (*Process).workUnder}
	operations["slowslot"] = operation{acquire: slotting((*lock.Slots).Acquire), during: (*Process).workSlowly}
	for limit := range mostSlots {
		operations[resizeTo(limit+1)] = operation{all: func(p *Process, o Operation) error { return p.resizeSlots(o, limit+1) }}
	}
}

// resizeTo returns the name of the operation that sets a limit of slots.
func resizeTo(limit int) string { return fmt.Sprint("slots", limit) }

// SlotScenarios contains the scripts of slots, which run with every cut as the others do.
var SlotScenarios = []Scenario{
	{"a client takes both slots, and releases them", func(w *World) {
		for _, a := range w.connect("a") {
			concurrently(
				func() { a.must(a.slot(w.fraction(8))); a.must(a.slot(0)) },
				func() { a.must(a.slot(w.fraction(8))) },
			)
		}
	}},
	{"three processes contend for two slots, and one is cancelled", func(w *World) {
		p := w.connect("a", "b", "c")
		w.inOrder(
			func() { p["a"].must(p["a"].slot(w.fraction(2))); p["a"].must(p["a"].slot(0)) },
			func() { p["b"].must(p["b"].slot(w.fraction(4))); p["b"].must(p["b"].slot(w.fraction(8))) },
			func() { p["c"].mayTimeOut(p["c"].do(Operation{"slot", lockPath, 0, w.fraction(8)})) },
			func() { p["c"].must(p["c"].slot(w.fraction(8))) },
		)
	}},
	{"a slot is tried", func(w *World) {
		p := w.connect("a", "b")
		try := func(p *Process) { w.mayHold(p.do(Operation{"tryslot", lockPath, w.fraction(8), 0})) }
		w.inOrder(
			func() { p["a"].must(p["a"].slot(w.fraction(2))) },
			func() { p["b"].must(p["b"].slot(w.fraction(4))); try(p["b"]) },
			func() { try(p["a"]); try(p["a"]) },
		)
	}},
	{"the session of a holder of a slot expires, and two wait", func(w *World) {
		p := w.connect("a", "b", "c")
		w.inOrder(
			func() { p["a"].must(p["a"].do(Operation{"slowslot", lockPath, w.fraction(1), 0})) },
			func() { p["a"].must(p["a"].slot(w.fraction(1))) },
			func() { p["b"].must(p["b"].slot(w.fraction(8))) },
			func() { p["c"].must(p["c"].slot(w.fraction(8))) },
			func() { time.Sleep(w.fraction(4)); w.must(p["a"].inject("expire")) },
		)
	}},
	{"the deadline of a slot passes, whose session goes on", func(w *World) {
		p := w.connect("a", "b", "c")
		w.inOrder(
			func() { p["a"].must(p["a"].do(Operation{"slowslot", lockPath, 2 * w.opts.Timeout, 0})) },
			func() { p["b"].must(p["b"].slot(2 * w.opts.Timeout)) },
			func() { p["c"].must(p["c"].slot(w.fraction(8))) },
			func() {
				time.Sleep(w.fraction(4))
				w.must(p["a"].inject("hold to-server"))
				time.Sleep(w.fraction(32) * 25) // a moment more than its claim lasts, and less than its session
				w.must(p["a"].inject("release"))
			},
		)
	}},
	{"the limit of slots is lowered while a number is in use", func(w *World) {
		p := w.connect("a", "b", "c")
		w.inOrder(
			func() { p["a"].must(p["a"].slot(w.fraction(8))) },
			func() { p["b"].must(p["b"].slot(w.fraction(2))) },
			func() { time.Sleep(w.fraction(4)); p["c"].mustResize(1); p["c"].must(p["c"].slot(w.fraction(8))) },
			func() { time.Sleep(w.fraction(2)); p["a"].mustResize(1); p["a"].mustResize(3); p["b"].mustResize(2) },
		)
		p["c"].mustResize(1)
		p["b"].must(p["b"].slot(0))
	}},
	{"the limit of slots is lowered while a contender behind is granted the number that it removes", func(w *World) {
		p := w.connect("a", "b", "c")
		p["c"].mustResize(slotLimit)
		w.inOrder(
			func() { p["a"].must(p["a"].slot(w.fraction(4))) },
			func() {
				p["c"].link.Intercept(zktest.Rule{Op: "setData", Path: limitPath(lockPath), Times: 1, Before: func(zktest.Request) {
					time.Sleep(w.fraction(2)) // a releases the number 0, and leaves it to c
				}})
				p["c"].mustResize(1)
			},
			func() { p["b"].must(p["b"].slot(w.fraction(1))) },
		)
		p["c"].mustResize(1)
	}},
	{"an operator deletes the contender of a slot", func(w *World) {
		p := w.connect("a", "b", "c")
		w.inOrder(
			func() { p["a"].must(p["a"].do(Operation{"slowslot", lockPath, w.fraction(1), 0})) },
			func() { p["b"].must(p["b"].slot(w.fraction(1))) },
			func() { p["c"].must(p["c"].slot(w.fraction(8))) },
			func() { time.Sleep(w.fraction(4)); w.must(p["a"].inject("delete " + lockPath)) },
		)
	}},
	{"an operator deletes the number of a slot", func(w *World) {
		p := w.connect("a", "b", "c")
		w.inOrder(
			func() { p["a"].must(p["a"].slot(w.fraction(1))) },
			func() { p["b"].must(p["b"].slot(w.fraction(1))) },
			func() { p["c"].must(p["c"].slot(w.fraction(8))) },
			func() { time.Sleep(w.fraction(4)); w.must(p["a"].inject("delete " + limitPath(lockPath))) },
		)
	}},
	{closedWithSlot, func(w *World) {
		p := w.connect("a", "b", "c")
		w.inOrder(
			func() { p["a"].must(p["a"].slot(w.fraction(1))) },
			func() { p["b"].must(p["b"].slot(w.fraction(1))) },
			func() { p["c"].must(p["c"].slot(w.fraction(8))) },
			func() { p["c"].must(p["c"].slot(w.fraction(8))) },
			func() { time.Sleep(w.fraction(4)); w.must(p["a"].inject("crash")); p["b"].client.Close() },
		)
	}},
}

// slot acquires a slot at lockPath, and holds it for hold.
func (p *Process) slot(hold time.Duration) error { return p.do(Operation{"slot", lockPath, hold, 0}) }

// mayTimeOut is must for an operation that may also be granted in time.
func (p *Process) mayTimeOut(err error) {
	if !errors.Is(err, context.DeadlineExceeded) {
		p.must(err)
	}
}

// slotting returns a function that requests a slot.
func slotting(take func(*lock.Slots, context.Context) (*lock.Slot, error)) acquirer {
	return func(p *Process, ctx context.Context, o Operation) (grant, error) {
		slot, err := p.takeSlot(ctx, o.Path, slotLimit, take)
		if errors.As(err, new(*lock.LimitError)) { // another process resized them before this one used them
			slot, err = p.takeSlot(ctx, o.Path, 0, take)
		}
		if err != nil {
			return grant{}, err
		}
		return grant{Claim: slot.Claim, release: slot.Unlock, number: strconv.Itoa(slot.Number())}, nil
	}
}

// takeSlot requests a slot of the process's slots with a limit.
func (p *Process) takeSlot(ctx context.Context, path string, limit int, take func(*lock.Slots, context.Context) (*lock.Slot, error)) (*lock.Slot, error) {
	s, err := p.slots(path, limit)
	if err != nil {
		return nil, err
	}
	return take(s, ctx)
}

// resizeSlots changes the limit of the slots at the operation's path within its wait, unless a removed number is in use.
func (p *Process) resizeSlots(o Operation, limit int) error {
	s, err := p.slots(o.Path, slotLimit)
	if err != nil {
		return err
	}
	ctx, cancel := p.within(o.Wait)
	defer cancel()
	err = s.Resize(ctx, limit)
	if errors.As(err, new(*lock.HeldError)) || p.crashed() {
		return nil
	}
	return err
}

// mustResize changes the limit at lockPath, unless a removed number is in use.
func (p *Process) mustResize(limit int) { p.must(p.resizeSlots(Operation{Path: lockPath}, limit)) }

// slots returns the process's slots of a path with a limit, 0 for the stored one.
func (p *Process) slots(path string, limit int) (*lock.Slots, error) {
	return once(p, fmt.Sprint(path, " ", limit), func() (*lock.Slots, error) {
		return lock.NewSlots(p.client, path, limit, &lock.SemaphoreOptions{Owner: p.name})
	})
}

// slots has some operations of some plans that have no permits use slots, on the same paths, and has an operator delete numbers.
func (g *generator) slots() {
	usesPermits := func(s Step) bool {
		return strings.HasPrefix(s.Action, "acquire") || strings.HasPrefix(s.Action, "tryacquire")
	}
	if g.IntN(4) > 0 || slices.ContainsFunc(g.plan.Steps, usesPermits) {
		return
	}
	for i, s := range g.plan.Steps {
		kind, args, _ := strings.Cut(s.Action, " ")
		switch {
		case kind == "lock" && g.IntN(6) > 0:
			kind = pick(g, "slot", "slot", "slot", "slowslot", resizeTo(1+g.IntN(mostSlots)))
		case kind == "try" && g.IntN(2) == 0:
			kind = "tryslot"
		}
		g.plan.Steps[i].Action = strings.TrimSuffix(kind+" "+args, " ")
	}
	for range g.IntN(3) {
		process := fmt.Sprintf("c%d", g.IntN(g.plan.Processes))
		g.add(g.between(g.plan.Timeout/8, g.plan.Length), process, "delete %s", limitPath(pick(g, g.plan.Paths...)))
	}
}
