// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// GeneratePlan generates the plan of a run. The same options give the same plan.
func GeneratePlan(opts *Options) []Fault {
	d := generator{rand.New(rand.NewPCG(opts.Seed, 0)), opts}
	var plan []Fault
	last := opts.Duration - opts.quiet()
	kindQueue := &kindQueue{generator: d}
	for at := opts.Timeout / 2; at < last; {
		before := at
		for range volleys {
			if faults := d.volley(at, last); faults != nil {
				plan = append(plan, faults...)
				at = end(faults) + d.fraction(8, 16)
			}
		}
		if faults := d.replicaVolley(at, last); faults != nil {
			plan = append(plan, faults...)
			at = end(faults) + d.fraction(8, 16)
		}
		round := kindQueue.round(at, last)
		plan = append(plan, round...)
		at = max(at, end(round)) + d.fraction(12, 24)
		if round == nil && at-before < opts.Timeout { // nothing fits any more
			at = max(at, before+opts.Timeout)
		}
	}
	slices.SortStableFunc(plan, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return plan
}

// A plan alternates between volleys at holders, one at replicas if there are any, and mixed rounds of all kinds, with quiet time
// after each.
const (
	volleys = 2 // in a row
	mixed   = 8 // faults of a round
)

// end returns when the last of the faults is healed, 0 if there are none.
func end(faults []Fault) (end time.Duration) {
	for _, f := range faults {
		end = max(end, f.At+f.For)
	}
	return end
}

// A kindQueue gives every kind of fault its turn, in random order.
type kindQueue struct {
	generator

	kinds []string
}

// next returns the next kind, "" if there is none to inject.
func (d *kindQueue) next() string {
	if len(d.kinds) == 0 {
		for _, name := range d.opts.Faults {
			if kinds[name].inject != nil {
				d.kinds = append(d.kinds, name)
			}
		}
		if len(d.kinds) == 0 {
			return ""
		}
		d.Shuffle(len(d.kinds), func(i, j int) { d.kinds[i], d.kinds[j] = d.kinds[j], d.kinds[i] })
	}
	name := d.kinds[0]
	d.kinds = d.kinds[1:]
	return name
}

// round draws overlapping faults of the next kinds.
func (d *kindQueue) round(at, last time.Duration) []Fault {
	var round []Fault
	for range mixed {
		name := d.next()
		if name == "" || at >= last {
			return round
		}
		kind := kinds[name]
		least, most := kind.lasts(d.opts)
		f := Fault{At: at, Kind: name, For: d.between(least, most)}
		for _, w := range kind.parameters {
			f.Args = append(f.Args, w.draw(d.generator))
		}
		f.At += d.roomFor(round, f)
		// Towards the end faults are shorter, but none is so short that it has no effect.
		if left := last - f.At; left >= least {
			f.For = min(f.For, left.Truncate(time.Millisecond))
			round = append(round, f)
			at = f.At
		}
		at += d.fraction(1, 8)
	}
	return round
}

// roomFor returns how long f must wait until at most two other faults are in progress, and none that it excludes. As a rule,
// servers are broken one at a time, so that there is a quorum to test.
func (d generator) roomFor(plan []Fault, f Fault) time.Duration {
	reckless := d.IntN(8) == 0
	var ends []time.Duration
	wait := time.Duration(0)
	for _, other := range plan {
		end := other.At + other.For
		if end <= f.At {
			continue
		}
		ends = append(ends, end)
		a, b := kinds[f.Kind], kinds[other.Kind]
		servers := a.target.servers() && b.target.servers()
		if servers && (!reckless || a.target == onAll || b.target == onAll) {
			wait = max(wait, end-f.At)
		}
	}
	slices.Sort(ends)
	if n := len(ends) - maxConcurrent; n >= 0 {
		wait = max(wait, ends[n]-f.At)
	}
	return wait
}
