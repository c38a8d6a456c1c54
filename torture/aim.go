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
	c.send(fmt.Sprintf("%s %d %v", worker.Extend, h.Attempt, lasts+r.opts.Timeout/4))
	r.recorder.add(history.Event{
		At: r.time.Now(), Kind: history.Fault, Text: fmt.Sprintf("aimed at %s, which holds %s in attempt %d", h.Contender, h.Path, h.Attempt),
	})
	return c, nil
}

// holder returns a contender that holds a lock and has held it for longer than the short holds last, so that a fault injected
// now hits it while it still holds. Of several, it returns the one that was granted its lock last, without those that have a
// fault in progress.
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

// volley draws a group of faults that hit holders at the same time, while no other fault is in progress. Its caller lets a
// quiet time follow, in which the paths recover. The volley leaves at least one contender undisturbed, which acquires the locks
// that the others lose.
func (d generator) volley(at, last time.Duration) []Fault {
	var names []string
	for _, name := range []string{"cut-contender", "pause-contender"} {
		if slices.Contains(d.opts.Faults, name) {
			names = append(names, name)
		}
	}
	d.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	targets := make([]string, 0, maxConcurrent)
	for range names {
		targets = append(targets, holderTarget)
	}
	if len(names) > 0 && d.IntN(3) > 0 {
		names, targets = append(names, names[d.IntN(len(names))]), append(targets, d.contender())
	} else if slices.Contains(d.opts.Faults, "kill-contender") {
		names, targets = append(names, "kill-contender"), append(targets, holderTarget)
	}
	var faults []Fault
	for i, name := range names[:min(len(names), max(1, d.opts.Contenders-1))] {
		f := Fault{At: at, Kind: name, For: d.fraction(aimedLeast, aimedMost)}
		if targets[i] != holderTarget {
			f.For = d.fraction(4, 16) // heals while the session lives, as a rule
		}
		if f.At+f.For > last {
			return nil
		}
		f.Args = []string{targets[i]}
		if name == "cut-contender" {
			f.Args = append(f.Args, directionParam.draw(d))
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
