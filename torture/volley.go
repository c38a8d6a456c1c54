// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"slices"
	"time"
)

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
