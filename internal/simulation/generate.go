// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// NewPlan draws a plan. One seed always gives the same.
func NewPlan(seed uint64) Plan {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), planted: map[string]bool{}} //nolint:gosec // to be repeated, not to be kept secret
	timeout := pick(g, 4*time.Second, 4*time.Second, 6*time.Second, 10*time.Second)
	g.plan = Plan{
		Options: Options{
			Servers: pick(g, 1, 3, 3),
			Timeout: timeout,
			Tick:    pick(g, timeout/4, timeout/4, timeout/8), // four ticks is what the promises ask for
			Sync:    pick(g, 5, 5, 10),
			Reap:    pick(g, time.Minute, 2*time.Second),
			Paths:   pick(g, []string{"/a"}, []string{"/a"}, []string{"/a", "/b/c"}),
		},
		Processes: 2 + g.IntN(4),
		Length:    g.between(20*time.Second, 50*time.Second),
		Near:      map[int]int{},
	}
	for i := range g.plan.Processes {
		if g.plan.Servers > 1 && g.IntN(3) == 0 {
			g.plan.Near[i] = g.IntN(g.plan.Servers)
		}
		for worker := range pick(g, 1, 1, 1, 2) {
			g.employ(fmt.Sprintf("c%d.%d", i, worker))
		}
	}
	// Most runs have some faults; the more there are, the less is ever held.
	for range pick(g, 3, 6, 6, 12, 24) {
		g.harm()
	}
	g.Rand = rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // what came before is as it is without what follows
	g.reign()
	g.Rand = rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // likewise
	g.time()
	if g.IntN(64) == 0 {
		g.crowd()
	}
	slices.SortStableFunc(g.plan.Steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return g.plan
}

type generator struct {
	*rand.Rand
	plan    Plan
	planted map[string]bool
}

func pick[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

// between is a time in whole milliseconds, so that plans are short.
func (g *generator) between(from, to time.Duration) time.Duration {
	return (from + time.Duration(g.Int64N(int64(to-from)+1))).Round(time.Millisecond)
}

func (g *generator) add(at time.Duration, who, format string, args ...any) {
	g.plan.add(at, who, format, args...)
}

// time draws what is timed: no promise may depend on how heartbeats, ticks and round trips lie to each other. Heartbeats
// may not be so rare that a claim whose node was deleted is not told in 3T/4, where one that is younger than a period is
// checked in the period after.
func (g *generator) time() {
	t := g.plan.Timeout
	g.plan.Beat = pick(g, 0, 0, t/12, g.between(t/12, t/4), t/4, t*3/10).Round(time.Millisecond)
	// Of fewer than four ticks no notification in time is promised, but everything else is.
	g.plan.Tick = pick(g, g.plan.Tick, g.plan.Tick, g.plan.Tick, t/2, t/5, t/16, g.between(t/16, t/4)).Round(time.Millisecond)
	g.plan.Away = pick(g, 0, 0, time.Millisecond/4, g.between(time.Millisecond, t/64), g.between(t/64, t/32))
}

// crowd gives c0 more nodes than one heartbeat checks, and sometimes has an operator delete some of them at the same instant.
func (g *generator) crowd() {
	g.plan.Crowd = 200
	if g.IntN(2) == 0 {
		g.add(g.between(g.plan.Timeout, g.plan.Length), "c0", "delete-crowd %d", pick(g, 1, 3, 40, 150))
	}
}

// employ has a worker ask for something now and then. What it holds, it holds for a moment as a rule, and sometimes for
// longer than a session lasts.
func (g *generator) employ(who string) {
	t := g.plan.Timeout
	eager := pick(g, t/8, t/2, t)
	for at := g.between(0, t/2); at < g.plan.Length; at += g.between(t/64, eager) {
		path := pick(g, g.plan.Paths...)
		hold := pick(g, g.between(0, t/16), g.between(t/8, t), g.between(t/2, 3*t))
		wait := pick(g, 0, g.between(t/16, t/2), g.between(t/2, 3*t))
		switch g.IntN(10) {
		case 0, 1, 2, 3:
			g.add(at, who, "lock %s %v %v", path, hold, wait)
		case 4:
			g.add(at, who, "busy %s %v %v", path, max(hold, t/4), wait)
		case 5, 6:
			g.add(at, who, "try %s %v %v", path, hold, max(wait, t/2))
		case 7, 8:
			g.add(at, who, "campaign %s %v %v", path, hold, wait)
		default:
			g.add(at, who, "run %s %v %v", path, max(hold, t/8), g.between(t/2, 4*t))
		}
		at += hold
	}
}

// reign has some of those who campaign claim epochs, and sometimes somebody meddle with them.
func (g *generator) reign() {
	for i, s := range g.plan.Steps {
		if what, campaigns := strings.CutPrefix(s.What, "campaign "); campaigns && g.IntN(3) > 0 {
			g.plan.Steps[i].What = "reign " + what
		}
	}
	if g.IntN(4) > 0 {
		return
	}
	for range 1 + g.IntN(4) {
		g.add(g.between(g.plan.Timeout/8, g.plan.Length), "zk", "%s %s", pick(g, "supersede", "forget"), pick(g, g.plan.Paths...))
	}
}

// harm adds something that goes wrong, and as a rule when that ends.
func (g *generator) harm() {
	t := g.plan.Timeout
	at := g.between(t/8, g.plan.Length)
	until := at + pick(g, g.between(0, t/4), g.between(t/4, t), g.between(t/2, 3*t))
	process := fmt.Sprintf("c%d", g.IntN(g.plan.Processes))
	path := pick(g, g.plan.Paths...)
	switch g.IntN(20) {
	case 0, 1, 2:
		g.add(at, process, "hold %s", pick(g, "both", "both", "to-server", "to-client"))
		g.add(until, process, "release")
	case 3, 4, 5:
		g.add(at, process, "pause")
		g.add(until, process, "wake")
	case 6:
		g.add(at, process, "cut")
	case 7:
		g.add(at, process, "refuse")
		g.add(at, process, "cut")
		g.add(until, process, "accept")
	case 8:
		g.add(at, process, "delay %v", g.between(0, t/6))
		g.add(until, process, "delay 0s")
	case 9, 10:
		g.add(at, process, "%s %d", pick(g, "cut-before", "cut-after"), 1+g.IntN(12))
	case 11:
		g.add(at, process, "expire")
	case 12:
		g.add(at, process, "delete %s", path)
	case 13:
		g.add(at, process, "%s", pick(g, "crash", "vanish"))
	case 14:
		g.add(at, "zk", "%s", pick(g, "delete-line "+path, "reap"))
	case 15:
		if g.planted[path] {
			return // a counter never goes back
		}
		g.planted[path] = true
		g.add(at, "zk", "plant-counter %s %d", path, pick(g, 1<<31-1<<20-2, 1<<31-4, 1<<31-1))
	default:
		g.harmServers(at, until)
	}
}

// harmServers adds something that goes wrong with the servers.
func (g *generator) harmServers(at, until time.Duration) {
	t := g.plan.Timeout
	server := g.IntN(g.plan.Servers)
	both := func(begin, end string, args ...any) {
		g.add(at, "zk", begin, append([]any{server}, args...)...)
		g.add(until, "zk", end, server)
	}
	n := 9
	if g.plan.Servers == 1 {
		n = 5
	}
	switch g.IntN(n) {
	case 0:
		both("stop %d", "start %d")
	case 1:
		both("hold %d %s", "release %d", pick(g, "both", "to-server", "to-client"))
	case 2:
		both("mute %d", "unmute %d")
	case 3:
		both("refuse %d", "accept %d")
	case 4:
		both("delay %d %v", "delay %d 0s", g.between(0, t/8))
	case 5, 6:
		both("cut-from-leader %d", "mend %d")
	case 7:
		both("lag %d %v", "lag %d 0s", g.between(0, t/2))
	default:
		// Whoever leads then: it is mended with the others.
		g.add(at, "zk", "depose")
		for i := range g.plan.Servers {
			g.add(until, "zk", "mend %d", i)
		}
	}
}
