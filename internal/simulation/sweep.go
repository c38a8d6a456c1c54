// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// A Sweep has one thing go wrong at one instant after the other: how much time is left then depends on how that instant
// lies to the pings of the leader, the ends of its ticks and the heartbeats, which all have periods of their own.
type Sweep struct {
	Name string
	Plan func(instant time.Duration) Plan // instant is in the first T
}

// instants is how many of them there are in a session timeout. It has no divisor in common with the periods.
const instants = 97

// At is the plan of the i-th instant.
func (s Sweep) At(i int) Plan { return s.Plan(sweepTimeout * time.Duration(i) / instants) }

const sweepTimeout = 4 * time.Second

// far is how much longer than others a process's frames may be under way: an answer takes almost as long as the recipes
// wait for one, T/8.
const far = sweepTimeout / 8 * 15 / 32

// Sweeps are all of them. Server 0 leads.
var Sweeps = []Sweep{
	{"a holder's link is silent both ways", holder{cut: "c0 hold both"}.plan},
	{"a holder's link is silent both ways, and it is far away", holder{far: true, cut: "c0 hold both"}.plan},
	{"a holder's link is silent to the server", holder{cut: "c0 hold to-server"}.plan},
	{"a holder's link is silent from the server", holder{cut: "c0 hold to-client"}.plan},
	{"a busy holder at a follower has its link silent to it", holder{at: 1, busy: true, far: true, cut: "c0 hold to-server"}.plan},
	{"a follower is cut from its leader", holder{at: 1, cut: "zk cut-from-leader 1"}.plan},
	{"a follower is cut from its leader, and its holder is far away", holder{at: 1, far: true, cut: "zk cut-from-leader 1"}.plan},
	{"a follower is cut from its leader, and its holder is busy", holder{at: 1, busy: true, far: true, cut: "zk cut-from-leader 1"}.plan},
	{"the same, with the longest ticks that servers grant", holder{at: 1, busy: true, far: true, tick: 2, cut: "zk cut-from-leader 1"}.plan},
	{"a leader is deposed", holder{cut: "zk depose"}.plan},
	{"a leader is deposed, and its holder is busy", holder{busy: true, far: true, cut: "zk depose"}.plan},
	{"no server reaches another", holder{at: 1, cut: "zk cut-from-leader 1; zk cut-from-leader 2"}.plan},
	{"a holder is paused", holder{at: 2, cut: "c0 pause"}.plan},
	{"a busy holder is killed", holder{at: 2, busy: true, far: true, cut: "c0 crash"}.plan},
	{"a deposed leader welcomes a waiter back", staleWelcome},
	{"a leader's node is deleted by hand while it writes", holder{how: "reign", far: true, cut: "c0 delete /a"}.plan},
	{"a leader's epoch is ended by hand while it writes", holder{how: "reign", far: true, cut: "zk supersede /a"}.plan},
	{"a leader's epoch is forgotten while it is cut off and writes", holder{how: "reign", far: true, cut: "c0 hold both; zk forget /a"}.plan},
	{"a leader's epoch is ended by hand while it claims it", contested},
	{"an operator deletes the parent under a holder, and its own client joins before it is notified", recreated{joiner: 0}.plan},
	{"an operator deletes the parent under a holder, and another client joins before it knows", recreated{joiner: 2}.plan},
	{"a leader with an epoch is paused", holder{how: "reign", at: 1, cut: "c0 pause"}.plan},
	{"a leader with an epoch has its follower cut from the others", holder{how: "reign", at: 1, cut: "zk cut-from-leader 1"}.plan},
}

// A holder is c0, which knows of one server only and holds the lock for long, while c1 waits for it at another.
type holder struct {
	at   int    // its server
	how  string // it asks: "lock" if empty
	busy bool   // it writes all the time
	far  bool   // its frames are under way for as long as can be
	tick int    // of the ticks in a session timeout: 4 if 0
	cut  string // what goes wrong, for good
}

func (h holder) plan(instant time.Duration) Plan {
	const t = sweepTimeout
	p := Plan{
		Options:   Options{Servers: 3, Timeout: t, Tick: t / time.Duration(cmp.Or(h.tick, 4)), Sync: 5, Reap: time.Minute, Paths: []string{"/a"}},
		Processes: 2,
		Length:    5 * t,
		Near:      map[int]int{0: h.at, 1: (h.at + 1) % 3},
	}
	how := cmp.Or(h.how, "lock")
	if h.busy {
		how = "busy"
	}
	if h.far {
		p.add(0, "c0", "delay %v", far.Round(time.Millisecond))
	}
	p.add(t/16, "c0.0", "%s /a %v 0s", how, 3*t)
	p.add(t, "c1.0", "%s /a %v 0s", cmp.Or(h.how, "lock"), t/4)
	for what := range strings.SplitSeq(h.cut, "; ") {
		who, what, _ := strings.Cut(what, " ")
		p.add(2*t+instant, who, "%s", what)
	}
	return p
}

// staleWelcome has c1 wait at the leader, which is deposed while c1 has no connection to it. It welcomes c1 back, shows it
// that the holder is gone and nobody is ahead, and knows nothing of c1's session having expired meanwhile.
func staleWelcome(instant time.Duration) Plan {
	const t = sweepTimeout
	p := Plan{
		Options:   Options{Servers: 3, Timeout: t, Tick: t / 4, Sync: 10, Reap: time.Minute, Paths: []string{"/a"}},
		Processes: 3,
		Length:    6 * t,
		Near:      map[int]int{0: 1, 1: 0, 2: 2},
	}
	p.add(t/16, "c0.0", "lock /a %v 0s", t/2)
	p.add(t/8, "c1.0", "lock /a %v 0s", t)
	p.add(t/4, "c2.0", "lock /a %v 0s", t)
	p.add(t/2, "c1", "refuse")
	p.add(t/2, "c1", "cut")
	p.add(t*5/8, "zk", "depose") // c0 has given the lock back before
	p.add(t*11/8+instant, "c1", "accept")
	return p
}

// contested has c0, which is far away, claim an epoch after that of c1, and somebody write one by hand meanwhile.
func contested(instant time.Duration) Plan {
	const t = sweepTimeout
	p := Plan{
		Options:   Options{Servers: 3, Timeout: t, Tick: t / 4, Sync: 5, Reap: time.Minute, Paths: []string{"/a"}},
		Processes: 2,
		Length:    4 * t,
		Near:      map[int]int{0: 1, 1: 0},
	}
	p.add(0, "c0", "delay %v", far.Round(time.Millisecond))
	p.add(t/16, "c1.0", "reign /a %v 0s", t/16)
	p.add(t/2, "c0.0", "reign /a %v 0s", t)
	p.add(t/2+instant, "zk", "supersede /a")
	return p
}

// recreated has c0 hold the lock, with number 1, as an operator deletes its parent with everything below it. c1 locks
// next, with number 0. Before c0 is notified, a client that is far away, and that does not know of the new parent, joins
// with number 1.
type recreated struct {
	joiner int // 0: c0 itself
}

func (r recreated) plan(instant time.Duration) Plan {
	const t = sweepTimeout
	p := Plan{
		Options: Options{
			Servers: 3, Timeout: t, Tick: t / 4, Beat: t * 3 / 10, Sync: 5, Reap: time.Minute, Paths: []string{"/a"},
		},
		Processes: 3,
		Length:    5 * t,
	}
	joiner := fmt.Sprint("c", r.joiner)
	p.add(0, joiner, "delay %v", far.Round(time.Millisecond))
	if r.joiner == 0 {
		// It stands beside another contender of its client when it joins, and writes all the time.
		p.add(t/16, joiner+".1", "lock /a %v 0s", t/2)
		p.add(t*3/4, "c0.0", "busy /a %v 0s", 3*t)
	} else {
		// It is alone, and so watches nothing, and writes seldom: a write that is refused would notify it.
		p.add(t/16, joiner+".1", "lock /a 0s 0s")
		p.add(t, "c0.0", "lock /a %v 0s", 3*t)
	}
	deleted := 2*t + instant
	p.add(deleted, "zk", "delete-line /a")
	p.add(deleted+t/64, "c1.0", "lock /a %v 0s", t)
	p.add(deleted+t/32, joiner+".1", "lock /a 0s 0s")
	return p
}

func (p *Plan) add(at time.Duration, who, format string, args ...any) {
	p.Steps = append(p.Steps, Step{at.Round(time.Millisecond), who, fmt.Sprintf(format, args...)})
}
