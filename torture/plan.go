// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Fault is injected into the servers, the contenders or the links between them, and healed later.
type Fault struct {
	At   time.Duration // since the beginning of the run
	For  time.Duration // until it is healed
	Kind string
	Args []string
}

// String returns the fault as a line of a plan.
func (f Fault) String() string {
	return strings.TrimSpace(fmt.Sprintf("at %v for %v %s %s", f.At, f.For, f.Kind, strings.Join(f.Args, " ")))
}

// WritePlan writes faults, one to a line.
func WritePlan(w io.Writer, plan []Fault) error {
	for _, f := range plan {
		if _, err := fmt.Fprintln(w, f); err != nil {
			return fmt.Errorf("plan: %w", err)
		}
	}
	return nil
}

// ReadPlan reads what WritePlan writes. It skips empty lines and lines that begin with #.
func ReadPlan(r io.Reader) ([]Fault, error) {
	plan := []Fault{} // not nil: an empty plan is a plan, and no request to generate one
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
		return f, fmt.Errorf("unknown fault %q: allowed are %s", f.Kind, strings.Join(Kinds(), ", "))
	}
	return f, nil
}

// checkPlan returns an error for a fault that the run cannot inject, with what is allowed there. A plan that passes has all that
// inject needs.
func checkPlan(opts *Options, plan []Fault) error {
	for _, f := range plan {
		if err := f.check(opts); err != nil {
			return fmt.Errorf("plan: %q: %w", f, err)
		}
	}
	return nil
}

func (f Fault) check(opts *Options) error {
	kind := kinds[f.Kind]
	if kind.inject == nil && kind.description != "" {
		return fmt.Errorf("fault %q: it is present from the start and belongs in no plan", f.Kind)
	}
	if kind.inject == nil || !slices.Contains(opts.Faults, f.Kind) {
		allowed := slices.DeleteFunc(slices.Clone(opts.Faults), func(name string) bool { return kinds[name].inject == nil })
		return fmt.Errorf("fault %q: not enabled in this run: allowed are %s", f.Kind, strings.Join(allowed, ", "))
	}
	if f.At < 0 || f.For < 0 || f.At > opts.Duration || f.For > opts.Duration-f.At {
		return fmt.Errorf("at %v for %v: it must begin and end within the run of %v", f.At, f.For, opts.Duration)
	}
	if len(f.Args) != len(kind.takes) {
		var names []string
		for _, w := range kind.takes {
			names = append(names, w.name)
		}
		return fmt.Errorf("%d arguments, want %d: %s", len(f.Args), len(names), strings.Join(names, " "))
	}
	for i, w := range kind.takes {
		if err := w.check(opts, f.Args[i]); err != nil {
			return fmt.Errorf("%s %q: %w", w.name, f.Args[i], err)
		}
	}
	return nil
}

// A parameter describes one argument of a fault.
type parameter struct {
	name  string
	draw  func(generator) string
	check func(opts *Options, text string) error // the error states what is allowed
}

// oneOf returns a parameter with an enumerable set of values.
func oneOf(name string, draw func(generator) string, all func(*Options) []string) parameter {
	return parameter{name, draw, func(opts *Options, text string) error {
		if allowed := all(opts); !slices.Contains(allowed, text) {
			return fmt.Errorf("allowed are %s", strings.Join(allowed, ", "))
		}
		return nil
	}}
}

// upTo returns the numbers from 1 to n.
func upTo(n int) []string {
	numbers := make([]string, n)
	for i := range numbers {
		numbers[i] = fmt.Sprint(i + 1)
	}
	return numbers
}

var (
	aServer = oneOf("server", generator.server, func(o *Options) []string {
		return append([]string{"leader", "follower"}, upTo(o.Servers)...)
	})
	aFollower = oneOf("server", func(generator) string { return "follower" }, func(*Options) []string { return []string{"follower"} })

	aContender = oneOf("contender", generator.contender, func(o *Options) []string { return upTo(o.Contenders) })

	// A contender, or the one that holds a lock when the fault is injected.
	aTarget = oneOf("contender", generator.contender, func(o *Options) []string { return append([]string{holderTarget}, upTo(o.Contenders)...) })

	aDirection = oneOf("direction", func(d generator) string { return directions[d.IntN(len(directions))] },
		func(*Options) []string { return directions })

	aRequest = oneOf("request", func(d generator) string { return d.opts.requests()[d.IntN(len(d.opts.requests()))] }, (*Options).requests)

	aPath = oneOf("path", generator.path, (*Options).paths)
	// Servers do not reap the counted path, and deleting it resets its counter.
	aContainer = oneOf("path", func(d generator) string { return containers[d.IntN(len(containers))] },
		func(*Options) []string { return containers })

	aPlace = parameter{"place", func(d generator) string { return fmt.Sprint(d.IntN(3)) }, func(_ *Options, text string) error {
		if n, err := strconv.Atoi(text); err != nil || n < 0 {
			return errors.New("allowed are 0, for the first in the queue, and more")
		}
		return nil
	}}
	// Up to T/2, both directions together: a client abandons a server that has not answered for somewhat less.
	aDelay = parameter{"delay", func(d generator) string { return d.fraction(1, 8).String() }, func(_ *Options, text string) error {
		if by, err := time.ParseDuration(text); err != nil || by <= 0 {
			return errors.New("allowed are times above 0s")
		}
		return nil
	}}
	aStep = parameter{"step", func(d generator) string {
		step := d.between(time.Second, 4*d.opts.Timeout)
		if d.IntN(4) == 0 {
			step = time.Hour
		}
		if d.IntN(2) == 0 {
			step = -step
		}
		return step.Truncate(time.Second).String()
	}, func(_ *Options, text string) error {
		if by, err := time.ParseDuration(text); err != nil || by == 0 || by%time.Second != 0 {
			return errors.New("allowed are whole seconds, forward or back")
		}
		return nil
	}}
)

// requests returns the kinds of requests whose replies can be lost. The harness does not know what a rival sends while it holds.
func (o *Options) requests() []string {
	if o.Rival != nil {
		return []string{"join", "release"}
	}
	return []string{"join", "release", "heartbeat"}
}

// A generator draws a plan.
type generator struct {
	*rand.Rand
	opts *Options
}

func (d generator) between(least, most time.Duration) time.Duration {
	return (least + time.Duration(d.Int64N(int64(most-least)))).Round(time.Millisecond)
}

// fraction draws a duration from a/16 to b/16 of T.
func (d generator) fraction(a, b int) time.Duration {
	return d.between(d.opts.Timeout*time.Duration(a)/16, d.opts.Timeout*time.Duration(b)/16)
}

func (d generator) server() string {
	if d.IntN(3) == 0 {
		return "leader"
	}
	return fmt.Sprint(1 + d.IntN(d.opts.Servers))
}

func (d generator) contender() string { return fmt.Sprint(1 + d.IntN(d.opts.Contenders)) }

func (d generator) path() string { return d.opts.paths()[d.IntN(len(d.opts.paths()))] }

// quiet returns the length of the final period of a run, in which no fault begins and all are healed.
func (o *Options) quiet() time.Duration { return min(o.Duration/4, 3*o.Timeout) }

// maxConcurrent is how many faults may be in progress at the same time.
const maxConcurrent = 3

// A plan alternates between volleys at holders and mixed rounds of all kinds, with quiet time after each.
const (
	volleys = 2 // in a row
	mixed   = 8 // faults of a round
)

// Draw generates the plan of a run. The same options give the same plan.
func Draw(opts *Options) []Fault {
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
		for _, w := range kind.takes {
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
