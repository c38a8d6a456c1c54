// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"time"
)

// leases adds a lock service to the plan: replicas, their callers and their faults, and in half of the plans an
// administrator.
func (g *generator) leases() {
	g.plan.Replicas = pick(g, 2, 2, 3)
	for i := range 3 {
		g.caller(fmt.Sprint("x", i))
	}
	for range pick(g, 2, 4, 8, 12) {
		g.replicaFault()
	}
	if g.IntN(2) == 0 {
		for at := g.between(0, 12*time.Second); at < g.plan.Length; at += g.between(0, 12*time.Second) {
			g.add(at, g.replica(), "revoke %s", pick(g, g.plan.Paths...))
		}
	}
	if g.IntN(2) == 0 {
		for i := 1; i < g.plan.Servers; i++ {
			g.add(0, "zk", "lag %d %v", i, g.between(0, g.plan.Timeout/8))
		}
	}
}

// replica draws the name of a replica.
func (g *generator) replica() string { return replicaName(g.IntN(g.plan.Replicas)) }

// caller adds the calls of one caller.
func (g *generator) caller(name string) {
	for at := g.between(0, g.plan.Timeout); at < g.plan.Length; at += g.between(0, g.plan.Timeout) {
		c := g.call()
		g.add(at, name, "%v", c)
		at += c.Hold
	}
}

// call draws a call. Short TTLs make the margins narrow.
func (g *generator) call() Call {
	const second = time.Second
	c := Call{
		Path:   pick(g, g.plan.Paths...),
		TTL:    g.between(second, 4*second),
		Wait:   pick(g, 0, g.between(0, g.plan.Timeout), g.between(0, 25*second)),
		Silent: g.between(0, second),
		GiveUp: g.between(5*second, 30*second),
		Flight: g.between(1, pick(g, second/250, second/25, second/4)),
		Lost:   pick(g, 0, 0, 1),
		Forget: g.IntN(4) == 0,
	}
	c.Hold = pick(g, g.between(0, c.TTL/2), g.between(c.TTL/2, 3*c.TTL))
	for range 1 + g.IntN(4) {
		c.Replicas = append(c.Replicas, g.replica())
	}
	for range pick(g, 0, 0, 1, 3) {
		c.Patience = append(c.Patience, pick(g, deaf, g.between(0, 3*second)))
		c.HangUp = pick(g, 0, g.between(1, second))
	}
	c.Reentrant = g.IntN(3) == 0
	if g.IntN(3) == 0 {
		c.Duplicate = g.between(1, 2*second)
	}
	if g.IntN(3) == 0 {
		c.Again = g.between(1, c.TTL)
	}
	if g.IntN(3) > 0 {
		c.Renew, c.Every = g.between(second, 4*second), pick(g, g.between(1, c.TTL/8), g.between(c.TTL/8, c.TTL))
	}
	return c
}

// replicaFault adds a fault of a replica, or of the answers to it, and its end if it has one.
func (g *generator) replicaFault() {
	t := g.plan.Timeout
	at := g.between(t/8, g.plan.Length)
	until := at + pick(g, g.between(0, t/4), g.between(t/4, t), g.between(t/2, 2*t))
	replica := g.replica()
	switch g.IntN(10) {
	case 0:
		g.add(at, replica, "hold %s", pick(g, "both", "both", "to-server", "to-client"))
		g.add(until, replica, "release")
	case 1:
		g.add(at, replica, "pause")
		g.add(until, replica, "wake")
	case 2:
		g.add(at, replica, "delay %v", g.between(0, t/6))
		g.add(until, replica, "delay 0s")
	case 3, 4, 5:
		g.add(at, replica, "%s %d", pick(g, "cut-before", "cut-after"), 1+g.IntN(12))
	case 6:
		g.add(at, replica, "replace")
	default: // what the answers show is old when they arrive
		op := pick(g, "setData", "create", "getChildren", "getData")
		g.add(at, "zk", "slow %s %s %d %v", op, pick(g, g.plan.Paths...), 1+g.IntN(8), g.between(0, t/9))
	}
}
