// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture/register"
	"github.com/lockkeeper/lockkeeper/torture/worker"
)

// holderTarget stands for a contender in a plan: the one that holds a lock when the fault is injected.
const holderTarget = "holder"

// errNoHolder reports that no contender has held a lock for long enough to be hit while it holds.
var errNoHolder = errors.New("no holder to aim at")

// target returns the contender that a fault hits: the one with the given number or, for holderTarget, the one that the
// registers identify as a holder. The harness asks that holder to extend its hold while the fault lasts, because work that is
// partitioned or stopped takes longer, too.
func (r *run) target(name string, lasts time.Duration) (*contender, error) {
	if name != holderTarget {
		return r.contender(name)
	}
	c, h, err := r.holder()
	if err != nil {
		return nil, err
	}
	c.tell(fmt.Sprintf("%s %d %v", worker.Keep, h.Attempt, lasts+r.opts.Timeout/4))
	r.recorder.add(history.Event{
		At: r.time.Now(), Kind: history.Fault, Text: fmt.Sprintf("aimed at %s, which holds %s in attempt %d", h.Contender, h.Path, h.Attempt),
	})
	return c, nil
}

// holder returns a contender that holds a lock and has held it for longer than the short holds last, so that a fault decided
// now hits it while it still holds. Of several, it returns the one that began last, and skips those with a fault in progress.
func (r *run) holder() (*contender, register.Holding, error) {
	now := r.time.Now()
	for _, h := range r.registers.Holdings() {
		if now-h.Last > history.Instant(worker.Gap(r.opts.Timeout)) || now-h.Since <= history.Instant(worker.LongestShortHold(r.opts.Timeout)) {
			continue
		}
		for _, c := range r.contenders {
			if c.current().name == h.Contender && !r.reservations.isReserved(c.processTarget()) && !r.reservations.isReserved(c.linksTarget()) {
				return c, h, nil
			}
		}
	}
	return nil, register.Holding{}, errNoHolder
}

// volley draws a group of faults that hit holders at the same time, while no other fault is in progress. A quiet time
// follows, in which the paths recover. The volley spares at least one contender, which takes over the locks the others lose.
func (d generator) volley(at, last time.Duration) []Fault {
	var kindsLeft []string
	for _, name := range []string{"cut-contender", "pause-contender"} {
		if slices.Contains(d.opts.Faults, name) {
			kindsLeft = append(kindsLeft, name)
		}
	}
	d.Shuffle(len(kindsLeft), func(i, j int) { kindsLeft[i], kindsLeft[j] = kindsLeft[j], kindsLeft[i] })
	targets := make([]string, 0, maxConcurrent)
	for range kindsLeft {
		targets = append(targets, holderTarget)
	}
	if len(kindsLeft) > 0 && d.IntN(3) > 0 {
		kindsLeft, targets = append(kindsLeft, kindsLeft[d.IntN(len(kindsLeft))]), append(targets, d.contender())
	} else if slices.Contains(d.opts.Faults, "kill-contender") {
		kindsLeft, targets = append(kindsLeft, "kill-contender"), append(targets, holderTarget)
	}
	var faults []Fault
	for i, name := range kindsLeft[:min(len(kindsLeft), max(1, d.opts.Contenders-1))] {
		f := Fault{At: at, Kind: name, For: d.fraction(aimedLeast, aimedMost)}
		if targets[i] != holderTarget {
			f.For = d.fraction(4, 16) // heals while the session lives, as a rule
		}
		if f.At+f.For > last {
			return nil
		}
		f.Args = []string{targets[i]}
		if name == "cut-contender" {
			f.Args = append(f.Args, aDirection.draw(d))
		}
		faults = append(faults, f)
		at += d.fraction(1, 4)
	}
	return faults
}

// A fault aimed at a holder lasts from aimedLeast/16 to aimedMost/16 of T: longer than a session lives, and short enough that
// two in three of an hour's holders are partitioned or stopped within it.
const (
	aimedLeast = 24
	aimedMost  = 40
)
