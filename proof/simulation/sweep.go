// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// A Sweep injects the same fault at each of many instants. The time that is left after a fault depends on its position in the
// periods of the leader's pings, its ticks and the heartbeats, which all differ.
type Sweep struct {
	Name string
	Plan func(instant time.Duration) Plan // instant is in the first T
}

// instants is the number of instants in a session timeout. It has no common divisor with the periods.
const instants = 97

// At returns the plan of the i-th instant.
func (s Sweep) At(i int) Plan { return s.Plan(sweepTimeout * time.Duration(i) / instants) }

const sweepTimeout = 4 * time.Second

// far is the additional latency of a distant process: an answer takes almost T/8, for which the recipes wait.
const far = sweepTimeout / 8 * 15 / 32

// Sweeps contains all sweeps. Server 0 leads.
var Sweeps = []Sweep{
	{"a holder's link is silent both ways", holder{faults: "c0 hold both"}.plan},
	{"a distant holder's link is silent both ways", holder{far: true, faults: "c0 hold both"}.plan},
	{"a holder's link is silent to the server", holder{faults: "c0 hold to-server"}.plan},
	{"a holder's link is silent from the server", holder{faults: "c0 hold to-client"}.plan},
	{"the link of a busy holder at a follower is silent to the server", holder{at: 1, busy: true, far: true, faults: "c0 hold to-server"}.plan},
	{"a follower is partitioned from its leader", holder{at: 1, faults: "zk cut-from-leader 1"}.plan},
	{"a follower is partitioned from its leader, and its holder is distant", holder{at: 1, far: true, faults: "zk cut-from-leader 1"}.plan},
	{"a follower is partitioned from its leader, and its holder is busy", holder{at: 1, busy: true, far: true, faults: "zk cut-from-leader 1"}.plan},
	{"the same, with the longest ticks that servers permit", holder{at: 1, busy: true, far: true, tick: 2, faults: "zk cut-from-leader 1"}.plan},
	{"a leader is deposed", holder{faults: "zk depose"}.plan},
	{"a leader is deposed, and its holder is busy", holder{busy: true, far: true, faults: "zk depose"}.plan},
	{"all servers are partitioned from each other", holder{at: 1, faults: "zk cut-from-leader 1; zk cut-from-leader 2"}.plan},
	{"a holder is paused", holder{at: 2, faults: "c0 pause"}.plan},
	{"a busy holder is killed", holder{at: 2, busy: true, far: true, faults: "c0 crash"}.plan},
	{"a deposed leader accepts a waiter's reconnection", staleLeader},
	{"an operator deletes a leader's node while it writes", holder{how: "reign", far: true, faults: "c0 delete /a"}.plan},
	{"an operator ends a leader's epoch while it writes", holder{how: "reign", far: true, faults: "zk supersede /a"}.plan},
	{"an operator deletes the epochs of a leader that is partitioned and writes", holder{how: "reign", far: true, faults: "c0 hold both; zk forget /a"}.plan},
	{"an operator writes an epoch while a leader claims it", contested},
	{"an operator deletes the parent under a holder, and its own client joins before it is notified", recreated{joiner: 0}.plan},
	{"an operator deletes the parent under a holder, and another client joins before it knows", recreated{joiner: 2}.plan},
	{"an operator deletes the parent under a holder, and a client joins that knew the holder's node", knowing},
	{"an operator deletes the parent under a holder, and another library's contender has one name in both lives", foreign},
	{"an operator deletes the parent under a holder, and two clients join that do not know it", believing},
	{"a leader with an epoch is paused", holder{how: "reign", at: 1, faults: "c0 pause"}.plan},
	{"the follower of a leader with an epoch is partitioned", holder{how: "reign", at: 1, faults: "zk cut-from-leader 1"}.plan},
}

// A holder is a plan in which c0 knows only one server and holds the lock for long, while c1 waits for it at another server.
type holder struct {
	at     int    // its server
	how    string // its operation: "lock" if empty
	busy   bool   // it writes continuously
	far    bool   // its frames have the latency far
	tick   int    // number of ticks in a session timeout: 4 if 0
	faults string // separated by semicolons; they do not end
}

func (h holder) plan(instant time.Duration) Plan {
	const t = sweepTimeout
	p := Plan{
		Options:    Options{Servers: 3, Timeout: t, Tick: t / time.Duration(cmp.Or(h.tick, 4)), Sync: 5, Reap: time.Minute, Paths: []string{"/a"}},
		Processes:  2,
		Length:     5 * t,
		OnlyServer: map[int]int{0: h.at, 1: (h.at + 1) % 3},
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
	for fault := range strings.SplitSeq(h.faults, "; ") {
		target, action, _ := strings.Cut(fault, " ")
		p.add(2*t+instant, target, "%s", action)
	}
	return p
}

// staleLeader has c1 wait at the leader, which is deposed while c1 has no connection to it. The deposed leader accepts c1's
// reconnection and returns a queue without a holder or a predecessor, and does not know that c1's session has expired.
func staleLeader(instant time.Duration) Plan {
	const t = sweepTimeout
	p := Plan{
		Options:    Options{Servers: 3, Timeout: t, Tick: t / 4, Sync: 10, Reap: time.Minute, Paths: []string{"/a"}},
		Processes:  3,
		Length:     6 * t,
		OnlyServer: map[int]int{0: 1, 1: 0, 2: 2},
	}
	p.add(t/16, "c0.0", "lock /a %v 0s", t/2)
	p.add(t/8, "c1.0", "lock /a %v 0s", t)
	p.add(t/4, "c2.0", "lock /a %v 0s", t)
	p.add(t/2, "c1", "refuse")
	p.add(t/2, "c1", "cut")
	p.add(t*5/8, "zk", "depose") // c0 has released the lock before
	p.add(t*11/8+instant, "c1", "accept")
	return p
}

// contested has the distant c0 claim an epoch after c1's, while an operator writes one.
func contested(instant time.Duration) Plan {
	const t = sweepTimeout
	p := Plan{
		Options:    Options{Servers: 3, Timeout: t, Tick: t / 4, Sync: 5, Reap: time.Minute, Paths: []string{"/a"}},
		Processes:  2,
		Length:     4 * t,
		OnlyServer: map[int]int{0: 1, 1: 0},
	}
	p.add(0, "c0", "delay %v", far.Round(time.Millisecond))
	p.add(t/16, "c1.0", "reign /a %v 0s", t/16)
	p.add(t/2, "c0.0", "reign /a %v 0s", t)
	p.add(t/2+instant, "zk", "supersede /a")
	return p
}

// recreated is a plan in which c0 holds the lock with sequence number 1 and an operator deletes its parent with everything
// below it. c1 locks next, with number 0. Before c0 is notified, a distant client that does not know the new parent joins
// with number 1.
type recreated struct {
	joiner int // 0: c0 itself
}

func (r recreated) plan(instant time.Duration) Plan {
	const t = sweepTimeout
	p := Plan{
		Options: Options{
			Servers: 3, Timeout: t, Tick: t / 4, Heartbeat: t * 3 / 10, Sync: 5, Reap: time.Minute, Paths: []string{"/a"},
		},
		Processes: 3,
		Length:    5 * t,
	}
	joiner := fmt.Sprint("c", r.joiner)
	p.add(0, joiner, "delay %v", far.Round(time.Millisecond))
	if r.joiner == 0 {
		// c0 already has a contender in the queue when this one joins, which then writes continuously.
		p.add(t/16, joiner+".1", "lock /a %v 0s", t/2)
		p.add(t*3/4, "c0.0", "busy /a %v 0s", 3*t)
	} else {
		// c0 is alone in the queue, so it watches nothing, and it writes seldom: a refused write would notify it.
		p.add(t/16, joiner+".1", "lock /a 0s 0s")
		p.add(t, "c0.0", "lock /a %v 0s", 3*t)
	}
	deleted := 2*t + instant
	p.add(deleted, "zk", "delete-line /a")
	p.add(deleted+t/64, "c1.0", "lock /a %v 0s", t)
	p.add(deleted+t/32, joiner+".1", "lock /a 0s 0s")
	return p
}

// recreatedParent is a plan without steps for so many processes, in which an operator deletes the parent of a lock.
func recreatedParent(processes int) Plan {
	const t = sweepTimeout
	return Plan{
		Options: Options{
			Servers: 3, Timeout: t, Tick: t / 4, Heartbeat: t * 3 / 10, Sync: 5, Reap: time.Minute, Paths: []string{"/a"},
		},
		Processes: processes,
		Length:    5 * t,
	}
}

// knowing is a plan in which c0 holds the lock with sequence number 3, and c2 has learned its name by a release. An operator deletes the
// parent with everything below it, and c3 creates three nodes in its next life. Before c0 is notified, c2 joins with number 3.
func knowing(instant time.Duration) Plan {
	const t = sweepTimeout
	p := recreatedParent(4)
	// The waits are too short for c0 to watch its own node.
	const step = t / 64
	p.add(t/16, "c1.0", "lock /a %v 0s", 4*step)
	p.add(t/16+step, "c2.0", "lock /a 0s 0s")
	p.add(t/16+2*step, "c0.0", "lock /a 0s 0s")
	p.add(t/16+3*step, "c0.1", "lock /a %v 0s", 4*t)
	p.add(t, "c2", "delay %v", far.Round(time.Millisecond))
	deleted := 2*t + instant
	p.add(deleted, "zk", "delete-line /a")
	p.add(deleted+step, "c3.0", "lock /a 0s 0s")
	p.add(deleted+2*step, "c3.0", "lock /a 0s 0s")
	p.add(deleted+3*step, "c3.0", "lock /a %v 0s", t)
	p.add(deleted+4*step, "c2.0", "lock /a 0s 0s")
	return p
}

// believing is knowing, with a client c4 that joins in the next life too, and takes it for the former one: its node, which it deletes
// when it is answered, has the tag of the former life. c2, whose witness is missing, lists that node.
func believing(instant time.Duration) Plan {
	const t = sweepTimeout
	p := recreatedParent(5)
	const step = t / 64
	p.add(t/32, "c4.0", "lock /a 0s 0s")
	p.add(t/16, "c1.0", "lock /a %v 0s", 4*step)
	p.add(t/16+step, "c2.0", "lock /a 0s 0s")
	p.add(t/16+2*step, "c0.0", "lock /a 0s 0s")
	p.add(t/16+3*step, "c0.1", "lock /a %v 0s", 4*t)
	p.add(t, "c4", "delay %v", far.Round(time.Millisecond))
	p.add(t, "c2", "delay %v", (far / 3).Round(time.Millisecond))
	deleted := 2*t + instant
	p.add(deleted, "zk", "delete-line /a")
	p.add(deleted+step, "c3.0", "lock /a 0s 0s")
	p.add(deleted+2*step, "c3.0", "lock /a 0s 0s")
	p.add(deleted+3*step, "c3.0", "lock /a %v 0s", t)
	p.add(deleted+4*step, "c4.0", "lock /a 0s 0s")
	p.add(deleted+5*step, "c2.0", "lock /a 0s 0s")
	return p
}

// foreign is a plan in which c0 holds the lock with sequence number 4, and c2 has seen the node of another library. An operator
// deletes the parent with everything below it. In its next life, the other library gives that name again, and c3 creates three
// nodes. Before c0 is notified, c2 joins with number 4.
func foreign(instant time.Duration) Plan {
	const t = sweepTimeout
	p := recreatedParent(4)
	const step = t / 64
	p.add(t/16, "c1.0", "lock /a 0s 0s")
	p.add(t/16+step, "zk", "join-foreign /a")
	p.add(t/16+2*step, "c2.0", "lock /a 0s 0s")
	p.add(t/16+4*step, "c0.0", "lock /a %v 0s", 3*step)
	p.add(t/16+5*step, "c0.1", "lock /a %v 0s", 4*t)
	p.add(t, "c2", "delay %v", far.Round(time.Millisecond))
	deleted := 2*t + instant
	p.add(deleted, "zk", "delete-line /a")
	p.add(deleted+step, "c3.0", "lock /a 0s 0s")
	p.add(deleted+2*step, "zk", "join-foreign /a")
	p.add(deleted+3*step, "c3.0", "lock /a 0s 0s")
	p.add(deleted+4*step, "c3.0", "lock /a %v 0s", t)
	p.add(deleted+5*step, "c2.0", "lock /a 0s 0s")
	return p
}

// add appends a step.
func (p *Plan) add(at time.Duration, target, format string, args ...any) {
	p.Steps = append(p.Steps, Step{at.Round(time.Millisecond), target, fmt.Sprintf(format, args...)})
}
