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

// NewPlan draws a plan. The same seed always returns the same plan.
func NewPlan(seed uint64) Plan { return draw(seed, false) }

// NewLeasePlan draws a plan with a lock service, its callers, and one or two clients of the library. The same seed always
// returns the same plan.
func NewLeasePlan(seed uint64) Plan { return draw(seed, true) }

func draw(seed uint64, leases bool) Plan {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), planted: map[string]bool{}} //nolint:gosec // it must be repeatable, not secret
	timeout := pick(g, 4*time.Second, 4*time.Second, 6*time.Second, 10*time.Second)
	g.plan = Plan{
		Options: Options{
			Servers: pick(g, 1, 3, 3),
			Timeout: timeout,
			Tick:    pick(g, timeout/4, timeout/4, timeout/8), // the promises require four ticks
			Sync:    pick(g, 5, 5, 10),
			Reap:    pick(g, time.Minute, 2*time.Second),
			Paths:   pick(g, []string{"/a"}, []string{"/a"}, []string{"/a", "/b/c"}),
		},
		Processes:  2 + g.IntN(4),
		Length:     g.between(20*time.Second, 50*time.Second),
		OnlyServer: map[int]int{},
	}
	if leases {
		g.plan.Processes = 1 + g.plan.Processes%2
	}
	for i := range g.plan.Processes {
		if g.plan.Servers > 1 && g.IntN(3) == 0 {
			g.plan.OnlyServer[i] = g.IntN(g.plan.Servers)
		}
		for worker := range pick(g, 1, 1, 1, 2) {
			g.worker(fmt.Sprintf("c%d.%d", i, worker))
		}
	}
	// The more faults a run has, the less is ever held.
	for range pick(g, 3, 6, 6, 12, 24) {
		g.fault()
	}
	// Each part has a stream of its own, so that the draws of one do not depend on another's.
	stream := func(n uint64) *generator {
		g.Rand = rand.New(rand.NewPCG(seed, n)) //nolint:gosec // likewise
		return g
	}
	stream(1).epochs()
	stream(2).timing()
	if g.IntN(64) == 0 && !leases {
		g.crowd()
	}
	if leases {
		stream(3).leases()
	}
	if stream(7); !leases && g.IntN(8) == 0 {
		g.lockDelay() // which readers, permits, slots, requests for several locks and partitions cannot have
	} else {
		stream(4).readWrite()
		stream(5).permits()
		stream(16).slots()
		stream(6).several()
		stream(14).severalKinds()
		if stream(17); !leases && g.IntN(8) == 0 {
			g.partitions()
		}
	}
	stream(8).nested()
	stream(18).slowly()
	stream(9).watches()
	if stream(15); !leases && g.IntN(8) == 0 {
		g.simultaneous()
	}
	g.plan.Keeper = stream(10).IntN(32) == 0
	slices.SortStableFunc(g.plan.Steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return g.plan
}

type generator struct {
	*rand.Rand
	plan    Plan
	planted map[string]bool
}

func pick[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

// between returns a time in whole milliseconds, which keeps the text of plans short.
func (g *generator) between(from, to time.Duration) time.Duration {
	return (from + time.Duration(g.Int64N(int64(to-from)+1))).Round(time.Millisecond)
}

func (g *generator) add(at time.Duration, target, format string, args ...any) {
	g.plan.add(at, target, format, args...)
}

// timing draws the periods: no promise may depend on the relation of heartbeats, ticks and round trips. The heartbeat period
// is bounded, because a claim whose node was deleted must be notified within 3T/4, and a claim younger than a period is
// checked only in the period after.
func (g *generator) timing() {
	t := g.plan.Timeout
	g.plan.Heartbeat = pick(g, 0, 0, t/12, g.between(t/12, t/4), t/4, t*3/10).Round(time.Millisecond)
	// With fewer than four ticks, everything but a notification in time is promised.
	g.plan.Tick = pick(g, g.plan.Tick, g.plan.Tick, g.plan.Tick, t/2, t/5, t/16, g.between(t/16, t/4)).Round(time.Millisecond)
	g.plan.Latency = pick(g, 0, 0, time.Millisecond/4, g.between(time.Millisecond, t/64), g.between(t/64, t/32))
}

// slowly has the work of a quarter of the locks stop slowly after a loss.
func (g *generator) slowly() {
	for i, s := range g.plan.Steps {
		if rest, is := strings.CutPrefix(s.Action, "lock "); is && g.IntN(4) == 0 {
			g.plan.Steps[i].Action = "slowlock " + rest
		}
	}
}

// crowd gives c0 more nodes than one heartbeat checks. In half of the plans, an operator deletes some of them at the same
// instant.
func (g *generator) crowd() {
	g.plan.Crowd = 200
	if g.IntN(2) == 0 {
		g.add(g.between(g.plan.Timeout, g.plan.Length), "c0", "delete-crowd %d", pick(g, 1, 3, 40, 150))
	}
}

// simultaneous has workers of two processes lock three paths each at the same instants, so that their sessions group the joins and the
// releases.
func (g *generator) simultaneous() {
	const firstOfGroup = 10 // worker, so that no other has its number
	paths := []string{"/g/0", "/g/1", "/g/2"}
	t := g.plan.Timeout
	for at := g.between(t/16, t/2); at < g.plan.Length; at += g.between(t/4, t) {
		hold := g.between(0, t/8)
		for process := range 2 {
			for i, path := range paths {
				g.add(at, fmt.Sprintf("c%d.%d", process, firstOfGroup+i), "lock %s %v %v", path, hold, 2*t)
			}
		}
	}
	g.plan.Paths = append(slices.Clone(g.plan.Paths), paths...)
}

// partitions makes some processes members of an assignment, again and again.
func (g *generator) partitions() {
	const worker = 20 // so that no other has its number
	t := g.plan.Timeout
	for process := range g.plan.Processes {
		for at := g.between(0, t); at < g.plan.Length; at += g.between(t/64, 2*t) {
			stopping, lasts := pick(g, 0, g.between(0, t/8), g.between(t/4, t)), g.between(t/4, 6*t)
			g.add(at, fmt.Sprintf("c%d.%d", process, worker), "own %s %v %v", g.plan.Paths[0], stopping, lasts)
			at += lasts
		}
	}
}

// worker adds the operations of one worker. Most hold for a moment, and some for longer than a session timeout.
func (g *generator) worker(name string) {
	t := g.plan.Timeout
	longestGap := pick(g, t/8, t/2, t)
	for at := g.between(0, t/2); at < g.plan.Length; at += g.between(t/64, longestGap) {
		path := pick(g, g.plan.Paths...)
		hold := pick(g, g.between(0, t/16), g.between(t/8, t), g.between(t/2, 3*t))
		wait := pick(g, 0, g.between(t/16, t/2), g.between(t/2, 3*t))
		switch g.IntN(10) {
		case 0, 1, 2, 3:
			g.add(at, name, "lock %s %v %v", path, hold, wait)
		case 4:
			g.add(at, name, "busy %s %v %v", path, max(hold, t/4), wait)
		case 5, 6:
			g.add(at, name, "try %s %v %v", path, hold, max(wait, t/2))
		case 7, 8:
			g.add(at, name, "campaign %s %v %v", path, hold, wait)
		default:
			g.add(at, name, "run %s %v %v", path, max(hold, t/8), g.between(t/2, 4*t))
		}
		at += hold
	}
}

// epochs turns some campaigns into ones that claim epochs, and in some plans has an operator write or delete epochs.
func (g *generator) epochs() {
	for i, s := range g.plan.Steps {
		if args, campaigns := strings.CutPrefix(s.Action, "campaign "); campaigns && g.IntN(3) > 0 {
			g.plan.Steps[i].Action = "reign " + args
		}
	}
	if g.IntN(4) > 0 {
		return
	}
	for range 1 + g.IntN(4) {
		g.add(g.between(g.plan.Timeout/8, g.plan.Length), "zk", "%s %s", pick(g, "supersede", "forget"), pick(g, g.plan.Paths...))
	}
}

// fault adds a fault, and its end if it has one.
func (g *generator) fault() {
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
			return // a counter never decreases
		}
		g.planted[path] = true
		g.add(at, "zk", "plant-counter %s %d", path, pick(g, 1<<31-1<<20-2, 1<<31-4, 1<<31-1))
	default:
		g.serverFault(at, until)
	}
}

// serverFault adds a fault of the servers.
func (g *generator) serverFault(at, until time.Duration) {
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
		// The leader of that moment is not known here, so every server is healed.
		g.add(at, "zk", "depose")
		for i := range g.plan.Servers {
			g.add(until, "zk", "mend %d", i)
		}
	}
}
