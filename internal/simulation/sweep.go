// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/simulation/history"
)

// A Sweep has one thing go wrong at one instant after the other: how much time is left then depends on how that instant
// lies to the pings of the leader, the ends of its ticks and the heartbeats, which all have periods of their own.
type Sweep struct {
	Name string
	Plan func(instant time.Duration) Plan // instant is in the first T
}

// instants is how many of them there are in a session timeout. It has no divisor in common with the periods.
const instants = 97

// Runs is how many runs there are.
func (s Sweep) Runs() int { return instants }

// Run carries out the i-th, in a bubble.
func (s Sweep) Run(i int) ([]history.Event, error) {
	return s.Plan(sweepTimeout * time.Duration(i) / instants).Run()
}

const sweepTimeout = 4 * time.Second

// far is how much longer than others a process's frames may be under way: an answer takes almost as long as the recipes
// wait for one, T/8.
const far = sweepTimeout / 8 * 15 / 32

// Sweeps are all of them. Server 0 leads.
var Sweeps = []Sweep{
	{"a holder's link is silent both ways", holder(0, 0, "c0 hold both")},
	{"a holder's link is silent both ways, and it is far away", holder(0, far, "c0 hold both")},
	{"a holder's link is silent to the server", holder(0, 0, "c0 hold to-server")},
	{"a holder's link is silent from the server", holder(0, 0, "c0 hold to-client")},
	{"a holder at a follower has its link silent to it", holder(1, far, "c0 hold to-server")},
	{"a follower is cut from its leader", holder(1, 0, "zk cut-from-leader 1")},
	{"a follower is cut from its leader, and its holder is far away", holder(1, far, "zk cut-from-leader 1")},
	{"a leader is deposed", holder(0, 0, "zk depose")},
	{"a leader is deposed, and its holder is far away", holder(0, far, "zk depose")},
	{"no server reaches another", holder(1, 0, "zk cut-from-leader 1", "zk cut-from-leader 2")},
	{"a holder is paused", holder(2, 0, "c0 pause")},
	{"a holder is far away and killed", holder(2, far, "c0 crash")},
	{"a deposed leader welcomes a waiter back", staleWelcome},
}

// holder are plans in which c0, which knows of one server only, holds the lock for long, c1 waits for it at another, and
// from an instant on something is cut off for good. distance is how much longer c0's frames are under way, one way.
func holder(server int, distance time.Duration, what ...string) func(time.Duration) Plan {
	return func(instant time.Duration) Plan {
		const t = sweepTimeout
		p := Plan{
			Options:   Options{Servers: 3, Timeout: t, Tick: t / 4, Sync: 5, Reap: time.Minute, Paths: []string{"/a"}},
			Processes: 2,
			Length:    5 * t,
			Near:      map[int]int{0: server, 1: (server + 1) % 3},
		}
		p.add(0, "c0", "delay %v", distance.Round(time.Millisecond))
		p.add(t/16, "c0.0", "lock /a %v 0s", 3*t)
		p.add(t, "c1.0", "lock /a %v 0s", t/4)
		for _, s := range what {
			p.add(2*t+instant, s[:2], "%s", s[3:])
		}
		return p
	}
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

func (p *Plan) add(at time.Duration, who, format string, args ...any) {
	p.Steps = append(p.Steps, Step{at.Round(time.Millisecond), who, fmt.Sprintf(format, args...)})
}
