// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"context"
	"net"
	"time"
)

// A Link is one client's network to the servers of an ensemble: its faults affect no
// other client. Its connections are in memory, even if the servers listen on sockets. It
// is safe for concurrent use.
//
// A held frame is not lost: as on a network that heals, it arrives when the link is
// released, if the connection lives that long. The end of a connection, closed by one
// side, is held as well.
type Link struct {
	ensemble   *Ensemble
	impairment impairment // guarded by the ensemble's mu
	traps      traps      // guarded by the ensemble's mu
}

// Link returns a network for one client: its Dial has the type of recipes.Options.Dial,
// and its Dialer returns the type that zk.WithDialer takes.
func (e *Ensemble) Link() *Link { return &Link{ensemble: e} }

// Dial connects to the server at an address of Ensemble.Addrs.
func (l *Link) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return l.ensemble.dial(ctx, l, network, address)
}

// Dialer is Dial in the form that zk.WithDialer takes.
func (l *Link) Dialer() func(network, address string, timeout time.Duration) (net.Conn, error) {
	return dialer(l.Dial)
}

// Hold keeps frames in the direction from arriving, until Release. A dial needs both
// directions: while either is held it waits, until its ctx ends, as it does when packets
// are lost.
func (l *Link) Hold(d Direction) { l.set(func(w *impairment) { w.held |= d & Both }) }

// Release releases all held frames, in order.
func (l *Link) Release() { l.set(func(w *impairment) { w.held = 0 }) }

// Refuse sets whether new connections are refused.
func (l *Link) Refuse(on bool) { l.set(func(w *impairment) { w.refuse = on }) }

// Delay delays each frame by d, in both directions. A negative d ends the test, or
// panics outside tests.
func (l *Link) Delay(d time.Duration) {
	l.ensemble.mustNotBeNegative(d)
	l.set(func(w *impairment) { w.delay = d })
}

// Reset ends the link's connections immediately on both sides, even while they are held.
// The client can connect again.
func (l *Link) Reset() {
	e := l.ensemble
	e.mu.Lock()
	defer e.unlock()
	for c := range e.conns {
		if c.link == l {
			e.abort(c, nil)
		}
	}
}

// LoseRequest sets a trap for the n-th frame that the client sends over the link from now
// on: the frame is not carried out, and its connection ends. See Ensemble.LoseRequest.
func (l *Link) LoseRequest(n int) *Trap { return l.ensemble.trap(&l.traps, n, false) }

// LoseReply sets a trap for the n-th frame that the client sends over the link from now
// on: the frame is carried out, and its connection ends before its reply is sent. See
// Ensemble.LoseReply.
func (l *Link) LoseReply(n int) *Trap { return l.ensemble.trap(&l.traps, n, true) }

func (l *Link) set(change func(*impairment)) {
	l.ensemble.mu.Lock()
	defer l.ensemble.unlock()
	change(&l.impairment)
	l.ensemble.applyImpairments()
}

// applyImpairments updates the connections' queues to the current impairments, and wakes
// the waiting dials. The caller holds mu.
func (e *Ensemble) applyImpairments() {
	for c := range e.conns {
		imp := c.impairment()
		c.in.hold(imp.held&ToServer != 0)
		c.out.hold(imp.held&ToClient != 0)
		c.slow.Store(int64(imp.delay))
	}
	e.wake()
}

// wake wakes the dials and waits, which look again. The caller holds mu.
func (e *Ensemble) wake() {
	e.toWake = append(e.toWake, e.changed)
	e.changed = make(chan struct{})
}

// impairment returns the combined impairments of the connection's server and link. The
// caller holds the ensemble's mu.
func (c *conn) impairment() impairment {
	imp := c.server.impairment
	if c.server.silent() {
		imp.held = Both
	}
	if c.link != nil {
		imp.held |= c.link.impairment.held
		imp.delay += c.link.impairment.delay
		imp.refuse = imp.refuse || c.link.impairment.refuse
	}
	return imp
}

func dialer(dial func(context.Context, string, string) (net.Conn, error)) func(string, string, time.Duration) (net.Conn, error) {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return dial(ctx, network, address)
	}
}
