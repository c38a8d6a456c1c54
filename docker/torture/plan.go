// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A Fault is one thing that is done to the servers, the contenders or what is between them, and taken back.
type Fault struct {
	At   time.Duration // since the beginning of the run
	For  time.Duration // until it is taken back
	Kind string
	Args []string
}

// String is the fault as a line of a plan.
func (f Fault) String() string {
	return strings.TrimSpace(fmt.Sprintf("at %v for %v %s %s", f.At, f.For, f.Kind, strings.Join(f.Args, " ")))
}

// WritePlan writes faults, a line each.
func WritePlan(w io.Writer, plan []Fault) error {
	for _, f := range plan {
		if _, err := fmt.Fprintln(w, f); err != nil {
			return fmt.Errorf("plan: %w", err)
		}
	}
	return nil
}

// ReadPlan reads what WritePlan writes. Empty lines, and those that begin with #, are skipped.
func ReadPlan(r io.Reader) ([]Fault, error) {
	var plan []Fault
	in := bufio.NewScanner(r)
	for n := 1; in.Scan(); n++ {
		text := strings.TrimSpace(in.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		f, err := readFault(text)
		if err != nil {
			return nil, fmt.Errorf("plan: line %d: %w", n, err)
		}
		plan = append(plan, f)
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return plan, nil
}

func readFault(text string) (f Fault, err error) {
	words := strings.Fields(text)
	if len(words) < 5 || words[0] != "at" || words[2] != "for" {
		return f, fmt.Errorf("%q: want at TIME for TIME KIND [ARG…]", text)
	}
	if f.At, err = time.ParseDuration(words[1]); err != nil {
		return f, err
	}
	if f.For, err = time.ParseDuration(words[3]); err != nil {
		return f, err
	}
	f.Kind, f.Args = words[4], words[5:]
	if _, known := kinds[f.Kind]; !known {
		return f, fmt.Errorf("%q is no fault: there are %s", f.Kind, strings.Join(Kinds(), ", "))
	}
	return f, nil
}

// dice draw a plan.
type dice struct {
	*rand.Rand
	opts *Options
}

func (d dice) between(least, most time.Duration) time.Duration {
	return (least + time.Duration(d.Int64N(int64(most-least)))).Round(time.Millisecond)
}

// part is from a/16 to b/16 of T.
func (d dice) part(a, b int) time.Duration {
	return d.between(d.opts.Timeout*time.Duration(a)/16, d.opts.Timeout*time.Duration(b)/16)
}

func (d dice) server() string {
	if d.IntN(3) == 0 {
		return "leader"
	}
	return fmt.Sprint(1 + d.IntN(d.opts.Servers))
}

func (d dice) contender() string { return fmt.Sprint(1 + d.IntN(d.opts.Contenders)) }

func (d dice) path() string { return d.opts.paths()[d.IntN(len(d.opts.paths()))] }

// quiet is the end of a run in which no fault begins, and all are taken back.
func (o *Options) quiet() time.Duration { return min(o.Duration/4, 3*o.Timeout) }

// atOnce is how many faults there may be at a time.
const atOnce = 3

// Draw makes a plan for a run. The same options make the same plan.
func Draw(opts *Options) []Fault {
	d := dice{rand.New(rand.NewPCG(opts.Seed, 0)), opts}
	var plan []Fault
	// Every kind has its turn, in an order that the dice decide.
	var deck []string
	last := opts.Duration - opts.quiet()
	for at := opts.Timeout / 2; at < last; {
		if len(deck) == 0 {
			for _, name := range opts.Faults {
				if kinds[name].inject != nil {
					deck = append(deck, name)
				}
			}
			if len(deck) == 0 {
				return nil
			}
			d.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		kind := kinds[deck[0]]
		f := Fault{At: at, Kind: deck[0], For: min(kind.lasts(d), last-at).Round(time.Millisecond), Args: kind.args(d)}
		deck = deck[1:]
		if wait := d.roomFor(plan, f); wait > 0 {
			f.At += wait
			at = f.At
		}
		if f.At+f.For <= last {
			plan = append(plan, f)
		}
		at += d.part(1, 8)
		if d.IntN(6) == 0 { // alone, now and then
			for _, other := range plan {
				at = max(at, other.At+other.For)
			}
			at += d.part(2, 8)
		}
	}
	slices.SortStableFunc(plan, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return plan
}

// roomFor is how long f must wait until no more than two others are under way, and until nothing is that it excludes:
// servers are broken one at a time, as a rule, so that there is a quorum to find fault with.
func (d dice) roomFor(plan []Fault, f Fault) time.Duration {
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
		servers := a.hits.servers() && b.hits.servers()
		if servers && (!reckless || a.hits == onAll || b.hits == onAll) {
			wait = max(wait, end-f.At)
		}
	}
	slices.Sort(ends)
	if n := len(ends) - atOnce; n >= 0 {
		wait = max(wait, ends[n]-f.At)
	}
	return wait
}
