// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// A budget is a limit for a value of a case.
type budget struct {
	what    string
	of      string // case
	servers int
	library string
	metric  string
	atLeast bool // otherwise at most
	limit   float64
	worst   bool   // each round must meet it, instead of the median
	scale   string // metric of the library that the limit is multiplied by
}

// budgets are the limits that the project has set itself.
var budgets = slices.Concat(
	onBoth(budget{what: "uncontended: requests", of: "uncontended", metric: "requests", limit: 2}),
	onBoth(budget{what: "uncontended, against the bare client", of: "uncontended", metric: "rate/" + bare, atLeast: true, limit: 0.95}),
	onOne(budget{what: "uncontended: allocations, against zk.Lock", of: "uncontended", metric: "allocations/" + zkLock, limit: 0.4}),
	onBoth(budget{what: "64 locks, one session, against the bare client", of: "64-locks-one-session", metric: "rate/" + bare, atLeast: true, limit: 3}),
	onBoth(budget{what: "64 locks: 99th percentile, against the bare client", of: "64-locks-one-session", metric: "p99 ms/" + bare, limit: 1}),
	onBoth(budget{what: "8 sessions, one lock, against the bare client", of: "hand-off-8", metric: "rate/" + bare, atLeast: true, limit: 0.85}),
	onBoth(budget{what: "32 sessions, one lock, against the bare client", of: "hand-off-32", metric: "rate/" + bare, atLeast: true, limit: 0.85}),
	onBoth(budget{what: "8 sessions, against zk.Lock in every round", of: "hand-off-8", metric: "rate/" + zkLock, atLeast: true, limit: 1, worst: true}),
	onBoth(budget{what: "32 sessions, against zk.Lock in every round", of: "hand-off-32", metric: "rate/" + zkLock, atLeast: true, limit: 1, worst: true}),
	onOne(budget{what: "32 sessions: requests", of: "hand-off-32", metric: "requests", limit: 5}),
	onOne(budget{what: "32 sessions: answers and events", of: "hand-off-32", metric: "answers", limit: 6}),
	onBoth(budget{what: "hand-over, against zk.Lock", of: "hand-over", metric: "p50 ms/" + zkLock, limit: 0.8}),
	onBoth(budget{what: "hand-over after a long wait, against zk.Lock", of: "hand-over", metric: "p50 ms after a long wait/" + zkLock, limit: 1.3}),
	onOne(budget{what: "5,000 waiting sessions: bytes of a hand-off", of: "waiters-5000", metric: inSessions + "hand-off bytes", limit: 500}),
	onOne(budget{what: "5,000 waiters in one client: bytes of a hand-off", of: "waiters-5000", metric: inOne + "hand-off bytes", limit: 500}),
	onOne(budget{what: "5,000 waiting sessions: bytes, against 10", of: "waiters-5000", metric: inSessions + "hand-off bytes", limit: 1.1, scale: "waiters-10"}),
	onOne(budget{what: "heap of a waiter, kB", of: "waiters-1000", metric: inOne + "heap of a waiter kB", limit: 4}),
	onOne(budget{what: "goroutines of a waiter", of: "waiters-1000", metric: inOne + "goroutines of a waiter", limit: 1}),
	onBoth(budget{what: "1,000 waiting sessions: writes a second", of: "idle-waiters", metric: "writes a second", limit: 5}),
	onOne(budget{what: "10,000 calls of Lock: queued, s", of: "burst", metric: "all queued s", limit: 3}),
	onOne(budget{what: "10,000 calls of Lock: received, MB", of: "burst", metric: "received MB", limit: 10}),
	onOne(budget{what: "10,000 calls of Lock: longest heartbeat, s", of: "burst", metric: "longest heartbeat s", limit: idleTimeout.Seconds() / 8, worst: true}),
	onOne(budget{what: "10,000 calls of Lock: other claims lost", of: "burst", metric: "other claims lost", worst: true}),
	onOne(budget{what: "10,000 holds, 100 deleted: last notified, s", of: "idle-holds", metric: "last notified s", limit: idleTimeout.Seconds() / 6, worst: true}),
	onOne(budget{what: "10,000 holds, 100 deleted: other claims lost", of: "idle-holds", metric: "other claims lost", worst: true}),
	onOne(budget{what: "1,024 slots lost, 2,000 waiters: all held again, s", of: "slot-storm", metric: "all held again s", limit: 5}),
	onOne(budget{what: "100 loops of Run: ended", of: "run-loops", metric: "loops ended", worst: true}),
	onBoth(budget{what: "SIGKILL: next grant, T", of: "kill", metric: "worst T", limit: 1 + 1.5*0.2/failureTimeout.Seconds(), worst: true}),
	onBoth(budget{what: "SIGKILL with the guardian: next grant, T", of: "kill", library: guarded, metric: "worst T", limit: 0.05, worst: true}),
	onOne(budget{what: "partition: notified before the next grant, T", of: "partition", metric: "least time before the next grant T", atLeast: true, limit: 0.25, worst: true}),
	onThreeAndFive(budget{what: "service, 500 operations a second: acquire, 99th percentile, ms", of: "service-500", library: allServe, metric: "acquire p99 ms", limit: 10}),
	onThreeAndFive(budget{what: "service, 500 operations a second: release, 99th percentile, ms", of: "service-500", library: allServe, metric: "release p99 ms", limit: 10}),
	[]budget{
		{what: "two of five servers killed: acquire, 99th percentile, ms", of: "service-500", servers: 5, library: twoKilled, metric: "acquire p99 ms", limit: 10},
		{what: "two of five servers killed: release, 99th percentile, ms", of: "service-500", servers: 5, library: twoKilled, metric: "release p99 ms", limit: 10},
	},
	onOne(budget{what: "server lost: back, against the bare client", of: "server-lost", metric: "back s/" + bare, limit: 0.5}),
)

// guarded is our library with the guardian, which closes the session of a process that was killed.
const guarded = ours + " with a guardian"

func onOne(b budget) []budget {
	b.servers = 1
	if b.library == "" {
		b.library = ours
	}
	return []budget{b}
}

func onBoth(b budget) []budget {
	one := onOne(b)
	three := one[0]
	three.servers = 3
	return append(one, three)
}

func onThreeAndFive(b budget) []budget {
	three, five := b, b
	three.servers, five.servers = 3, 5
	return []budget{three, five}
}

// An outcome is a budget with its measurement.
type outcome struct {
	budget
	measured float64
	found    bool
	met      bool
}

// outcomes compares the budgets of cases with their documents.
func outcomes(all documents, names []string) (found []outcome) {
	for _, b := range budgets {
		if !slices.Contains(names, b.of) {
			continue
		}
		o := outcome{budget: b}
		o.measured, o.found = all.median(b.of, b.servers, b.library, b.metric)
		if b.metric == "requests" || b.metric == "answers" { // a ping may be among them
			o.measured = math.Round(10*o.measured) / 10
		}
		if b.worst && o.found {
			o.measured = all.extreme(b.of, b.servers, b.library, b.metric, b.atLeast)
		}
		if b.scale != "" {
			base, known := all.median(b.scale, b.servers, b.library, b.metric)
			if o.found = o.found && known && base > 0; o.found {
				o.measured /= base
			}
		}
		o.met = o.found && (b.atLeast && o.measured >= b.limit || !b.atLeast && o.measured <= b.limit)
		found = append(found, o)
	}
	return found
}

// Verdict is PASS, or how much is missing.
func (o outcome) Verdict() string {
	switch {
	case !o.found:
		return "not measured"
	case o.met:
		return "PASS"
	case o.atLeast:
		return "short by " + show(o.limit-o.measured)
	}
	return "over by " + show(o.measured-o.limit)
}

func (o outcome) What() string     { return o.what }
func (o outcome) Servers() int     { return o.servers }
func (o outcome) Measured() string { return shown(o.measured, o.found) }
func (o outcome) Limit() string {
	if o.atLeast {
		return "≥ " + show(o.limit)
	}
	return "≤ " + show(o.limit)
}

// show returns a number with three digits at most, where that does not change its size.
func show(v float64) string {
	switch {
	case v >= 100 || v == float64(int(v)):
		return grouped(int(v + 0.5))
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func shown(v float64, found bool) string {
	if !found {
		return "–"
	}
	return show(v)
}

// grouped writes a number with commas.
func grouped(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}
