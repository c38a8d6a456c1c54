// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"context"
	"net"
	"time"
)

// A Direction is a way that frames go.
type Direction int

// The directions in which a connection can be held silent.
const (
	ToServer Direction = 1 << iota
	ToClient
	Both = ToServer | ToClient
)

func (d Direction) String() string {
	switch d {
	case ToServer:
		return "to-server"
	case ToClient:
		return "to-client"
	case Both:
		return "both"
	}
	return "no direction"
}

// way is what a frame meets between a client and a server. It is guarded by the
// ensemble's mu.
type way struct {
	held   Direction
	delay  time.Duration
	refuse bool
}

// A Link is one client's own way to the servers of an ensemble, on which it can be
// cut off while others are not. Its connections are in memory, also where the
// servers listen on sockets. Safe for concurrent use.
//
// What is held is not lost: as on a network that mends, it arrives when the link is
// released, if the connection lives that long. That one side has closed the
// connection is held as well.
type Link struct {
	ensemble *Ensemble
	way      way   // guarded by the ensemble's mu
	traps    traps // guarded by the ensemble's mu
}

// Link makes a way of its own for one client: its Dial is what recipes.Options.Dial
// takes, its Dialer what zk.WithDialer takes.
func (e *Ensemble) Link() *Link { return &Link{ensemble: e} }

// Dial connects to the server of that address.
func (l *Link) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return l.ensemble.dial(ctx, l, network, address)
}

// Dialer is Dial in the form that zk.WithDialer takes.
func (l *Link) Dialer() func(network, address string, timeout time.Duration) (net.Conn, error) {
	return dialer(l.Dial)
}

// Hold keeps what goes in the direction from arriving, until Release. Making a
// connection takes both directions: while either is held a dial waits, until its ctx
// ends, as one does whose packets are lost.
func (l *Link) Hold(d Direction) { l.set(func(w *way) { w.held |= d & Both }) }

// Release lets everything that was held pass, in its order.
func (l *Link) Release() { l.set(func(w *way) { w.held = 0 }) }

// Refuse has new connections refused, or not any more.
func (l *Link) Refuse(on bool) { l.set(func(w *way) { w.refuse = on }) }

// Delay has each frame arrive that much later, in both directions.
func (l *Link) Delay(d time.Duration) {
	l.ensemble.mustNotBeNegative(d)
	l.set(func(w *way) { w.delay = d })
}

// Cut ends the link's connections, on both sides and at once, also where they are held.
// New ones can be made.
func (l *Link) Cut() {
	e := l.ensemble
	e.mu.Lock()
	defer e.unlock()
	for c := range e.conns {
		if c.link == l {
			e.abort(c, nil)
		}
	}
}

// CutBefore ends a connection of the link in place of carrying out the n-th frame
// that the client sends over it from now on: see Ensemble.CutBefore.
func (l *Link) CutBefore(n int) *Trap { return l.ensemble.trap(&l.traps, n, false) }

// CutAfter ends a connection of the link once the n-th frame from now on was
// carried out, and before a word of it: see Ensemble.CutAfter.
func (l *Link) CutAfter(n int) *Trap { return l.ensemble.trap(&l.traps, n, true) }

func (l *Link) set(change func(*way)) {
	l.ensemble.mu.Lock()
	defer l.ensemble.unlock()
	change(&l.way)
	l.ensemble.rearrange()
}

// rearrange has the queues follow what holds them, and the dials that wait. The
// caller holds mu.
func (e *Ensemble) rearrange() {
	for c := range e.conns {
		held := c.ways()
		c.in.hold(held.held&ToServer != 0)
		c.out.hold(held.held&ToClient != 0)
		c.slow.Store(int64(held.delay))
	}
	e.stirred = append(e.stirred, e.changed)
	e.changed = make(chan struct{})
}

// ways is what holds or delays a connection, all in all. The caller holds the
// ensemble's mu.
func (c *conn) ways() way {
	w := c.server.way
	if c.link != nil {
		w.held |= c.link.way.held
		w.delay += c.link.way.delay
		w.refuse = w.refuse || c.link.way.refuse
	}
	return w
}
