// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
)

// use does what the operation does while it holds.
func (a *workloadClient) use(parts []part, drawn operation) {
	kind := kinds[drawn.how]
	switch {
	case drawn.idle:
		a.idle(parts[0].hold)
	case kind.shares:
		a.read(parts[0].hold, drawn.hold)
	default:
		a.work(parts, drawn.hold)
	}
	if kind.then != nil {
		kind.then(a, parts[0], drawn.hold)
	}
	a.stopWork(parts[0].hold)
}

// stopWork takes longer than T/4, the time that work has to stop, for one holder in four that was notified: its node must be kept for T/4.
func (a *workloadClient) stopWork(got Hold) {
	select {
	case <-got.Done():
		if a.rand.IntN(4) == 0 {
			a.pause(3 * time.Duration(a.spec.Timeout) / 8)
		}
	default:
	}
}

// read holds for d. The registers are for holders that exclude all others.
func (a *workloadClient) read(got Hold, d time.Duration) {
	select {
	case <-got.Done():
	case <-time.After(d):
	}
}

// work writes to the registers of all parts every few milliseconds. It waits between the check of the hold and the write: a process
// that is stopped there sends a stale write, as a process that is stopped at another instruction can.
func (a *workloadClient) work(parts []part, d time.Duration) {
	for over := time.Now().Add(d); time.Now().Before(over) || slices.ContainsFunc(parts, a.isExtended); {
		select {
		case <-parts[0].hold.Done(): // only Done: other methods of some libraries' holds read the clock themselves
			return
		default:
		}
		clock.Sleep(a.between(time.Millisecond, 5*time.Millisecond))
		for _, p := range parts {
			if _, err := a.registers.Write(p.register(), a.spec.Name, p.by.Attempt, p.token); err != nil {
				// No fault affects the registers, so this is a problem: from here on, stale writes are missed.
				a.reportedWrite.Do(func() {
					a.reporter.report(history.Event{Kind: history.Note, Text: fmt.Sprintf("write to the registers of %s: %v", p.by.Path, err)})
				})
				return
			}
		}
	}
}

// isExtended reports whether a part must be held for longer.
func (a *workloadClient) isExtended(p part) bool {
	return time.Now().Before(a.extendedUntil(p.by.Attempt))
}
