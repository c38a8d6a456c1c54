// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// WatchScenarios contains the scripts of clients that set their watches again, which run with every cut as the others do. The
// watches need several packets, or a server refuses one.
var WatchScenarios = []Scenario{
	{"a follower reconnects twice while a group changes, with watches in several packets", withObserver(func(w *World, p map[string]*Process) {
		p["c"].watchLongPaths(2)
		first := p["a"].mustJoin("x", "1")
		time.Sleep(w.fraction(4))
		w.must(p["c"].inject("refuse"))
		w.must(p["c"].inject("cut"))
		first.update("2")
		second := p["b"].mustJoin("y", "1")
		w.must(p["c"].inject("cut-watches 2"))
		w.must(p["c"].inject("accept"))
		time.Sleep(w.fraction(4))
		p["c"].mustHaveFollowed()
		first.leave()
		second.leave()
	})},
	{"a waiter reconnects twice while a limit is raised, with watches in several packets", func(w *World) {
		p := w.connect("a", "b", "c")
		if p["b"].client == nil {
			return
		}
		p["b"].watchLongPaths(2)
		w.inOrder(
			func() { p["a"].must(p["a"].permits(3, 4*w.opts.Timeout)) },
			func() { p["b"].must(p["b"].permitsWithin(1, 2*w.opts.Timeout)) },
			func() {
				w.must(p["b"].inject("refuse"))
				w.must(p["b"].inject("cut"))
				p["c"].resize(4)
				w.must(p["b"].inject("cut-watches 2"))
				w.must(p["b"].inject("accept"))
			},
		)
	}},
	{"a server refuses a waiter's watches", func(w *World) {
		p := w.connect("a", "b")
		w.inOrder(
			func() { p["a"].must(p["a"].lock(w.fraction(1), 0)) },
			func() { p["b"].must(p["b"].lock(0, allWait)) },
			func() {
				time.Sleep(w.fraction(4))
				w.must(p["b"].inject("refuse-watches 1"))
				w.must(p["b"].inject("cut"))
			},
		)
	}},
	{"a server refuses the second packet of a follower's watches", withObserver(func(w *World, p map[string]*Process) {
		p["c"].watchLongPaths(2)
		time.Sleep(w.fraction(4))
		w.must(p["c"].inject("refuse-watches 2"))
		w.must(p["c"].inject("cut"))
		time.Sleep(w.fraction(4))
		m := p["a"].mustJoin("x", "1")
		p["c"].mustHaveFollowed()
		m.leave()
	})},
}

// longPath is so long that the client sets no two watches of such paths again in one packet.
var longPath = "/" + strings.Repeat("long", 25<<10)

// watchLongPaths has the process watch n nodes with long paths, which do not exist, so that its client needs as many packets to
// set its watches again. The order of the watches in these is random.
func (p *Process) watchLongPaths(n int) {
	for i := range n {
		p.working.Go(func() {
			for p.ctx.Err() == nil {
				_, _, end, err := p.client.Conn().ExistsW(longPath + strconv.Itoa(i))
				if err != nil {
					time.Sleep(p.world.fraction(16)) // the next session may not have begun
					continue
				}
				select {
				case <-end: // of the session
				case <-p.ctx.Done():
				}
			}
		})
	}
}

// refuseWatches has servers refuse the n-th packet with which the process sets watches again.
func (p *Process) refuseWatches(n string) error {
	return p.onWatches(n, zktest.Rule{Fail: zktest.ErrThrottled})
}

// cutWatches ends the connection before the n-th packet with which the process sets watches again.
func (p *Process) cutWatches(n string) error {
	return p.onWatches(n, zktest.Rule{Lose: zktest.ToServer})
}

func (p *Process) onWatches(text string, rule zktest.Rule) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return fmt.Errorf("packet of watches %q: want a number, 1 or more", text)
	}
	rule.Op, rule.Skip, rule.Times = "setWatches", n-1, 1
	p.world.until(p.link.Intercept(rule))
	return nil
}

// watches gives each process watches that its client sets again in several packets, in one plan of eight, and has servers
// refuse some of these, and connections end between them.
func (g *generator) watches() {
	if g.IntN(8) > 0 {
		return
	}
	g.plan.LongWatches = 1 + g.IntN(3)
	for range 1 + g.IntN(6) {
		at := g.between(g.plan.Timeout/8, g.plan.Length)
		process := fmt.Sprintf("c%d", g.IntN(g.plan.Processes))
		g.add(at, process, "%s %d", pick(g, "refuse-watches", "cut-watches"), 1+g.IntN(g.plan.LongWatches))
		g.add(at, process, "cut")
	}
}
