// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"fmt"
	"slices"
	"time"
)

// volley draws a group of faults that hit holders at the same time, while no other fault is in progress. Its caller lets a
// quiet time follow, in which the paths recover. The volley leaves at least one contender undisturbed, which acquires the locks
// that the others lose.
func (d generator) volley(at, last time.Duration) []Fault {
	var names []string
	for _, name := range []string{"partition-contender", "pause-contender"} {
		if slices.Contains(d.opts.Faults, name) {
			names = append(names, name)
		}
	}
	d.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	targets := make([]string, 0, maxConcurrent)
	for range names {
		targets = append(targets, holderTarget)
	}
	steps := false
	switch third := d.IntN(6); {
	case third >= 3 && slices.Contains(names, "partition-contender") && slices.Contains(d.opts.Faults, "step-clock"):
		steps = true
	case third >= 2 && len(names) > 0:
		names, targets = append(names, names[d.IntN(len(names))]), append(targets, d.contender())
	case slices.Contains(d.opts.Faults, "kill-contender"):
		names, targets = append(names, "kill-contender"), append(targets, holderTarget)
	}
	names = names[:min(len(names), max(1, d.opts.Contenders-1))]
	if i := slices.Index(names, "partition-contender"); steps && i >= 0 {
		// In the place of the third fault, and not before the partition.
		names, targets = slices.Insert(names, i+1, "step-clock"), slices.Insert(targets, i+1, partitionedTarget)
		names = names[:min(len(names), maxConcurrent)]
	}
	var faults []Fault
	for i, name := range names {
		f := Fault{At: at, Kind: name, For: d.fraction(aimedLeast, aimedMost)}
		if targets[i] != holderTarget && targets[i] != partitionedTarget {
			f.For = d.fraction(4, 16) // heals while the session lives, as a rule
		}
		if name == "step-clock" {
			f.For = d.fraction(aimedLeast, 32)
		}
		if f.At+f.For > last {
			return nil
		}
		f.Args = []string{targets[i]}
		switch name {
		case "partition-contender":
			direction := directionParam.draw(d)
			if steps {
				direction = directions[d.IntN(2)] // otherwise the holder's requests can keep its session alive
			}
			f.Args = append(f.Args, direction)
		case "step-clock":
			// A deadline by the wall clock would come 2 T late: after another contender was granted the lock.
			f.Args = append(f.Args, (-2 * d.opts.Timeout).Truncate(time.Second).String())
		}
		faults = append(faults, f)
		at += d.fraction(1, 4)
	}
	return faults
}

// replicaVolley draws faults that hit the replicas of the lock service at the same time, all of them or all but one, while no other
// fault is in progress. Before that, a lock is released by force. It draws nothing without replicas.
func (d generator) replicaVolley(at, last time.Duration) []Fault {
	var names []string
	for _, name := range []string{"kill-replica", "restart-replica", "pause-replica", "partition-replica", "partition-callers"} {
		if slices.Contains(d.opts.Faults, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	replicas := d.Perm(d.opts.Replicas)
	var faults []Fault
	if slices.Contains(d.opts.Faults, "revoke") {
		faults = append(faults, Fault{At: at, Kind: "revoke", For: d.fraction(8, 16), Args: []string{holderTarget}})
		at = end(faults)
	}
	for _, i := range replicas[:max(1, min(maxConcurrent, len(replicas))-d.IntN(2))] {
		f := Fault{At: at, Kind: names[d.IntN(len(names))], For: d.fraction(4, aimedMost), Args: []string{fmt.Sprint(i + 1)}}
		if f.At+f.For > last {
			return nil
		}
		if f.Kind == "partition-replica" || f.Kind == "partition-callers" {
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
