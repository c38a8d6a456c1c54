// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"
)

// nearEnd is the part of a counter from which it counts as near its end.
const nearEnd = 15.0 / 16

// checkServers checks what the servers answered. requested is the session timeout that
// clients request.
func (d *diagnosis) checkServers(requested time.Duration) {
	var first, highest *serverState // of those that serve
	leaders, unknown := 0, false
	for _, s := range d.Servers {
		if s.Error != "" {
			d.found("connect", s.Address, "start the server, or check its address and the network", "%s", s.Error)
			continue
		}
		switch s.Mode {
		case "leader":
			leaders++
		case "read-only":
			d.found("check mode", s.Address, "connect it to the other servers", "it is read-only: it has no quorum")
		case "":
			unknown = true
		}
		switch {
		case first == nil:
			first = s
			d.checkTimeout(s, requested)
		case s.Granted != first.Granted || s.Tick != first.Tick:
			d.found("check configuration", s.Address, "give all servers the same tickTime, minSessionTimeout and maxSessionTimeout",
				"it has a tick of %v and grants %v; %s has %v and grants %v", s.Tick, s.Granted, first.Address, first.Tick, first.Granted)
		}
		if highest == nil || highest.zxid < s.zxid {
			highest = s
		}
	}
	if leaders > 1 {
		d.found("check modes", "ensemble", "if it persists, stop the one that has no quorum", "%d servers lead", leaders)
	}
	if unknown {
		d.Notes = append(d.Notes, "not all modes are known: a server does not answer the word srvr")
	}
	if highest != nil {
		d.checkZxid(highest)
	}
}

// checkTimeout checks the session timeout that a server grants.
func (d *diagnosis) checkTimeout(s *serverState, requested time.Duration) {
	tick := s.Tick.String()
	if s.estimated {
		tick = "about " + tick + " (half of the least session timeout)"
	}
	if s.Granted < 4*s.Tick {
		remedy := fmt.Sprintf("request at least %v", 4*s.Tick)
		if s.Max < 4*s.Tick {
			remedy += ", and raise maxSessionTimeout"
		}
		d.found("check session timeout", s.Address, remedy,
			"%v is below four ticks of %s: a holder is not notified early enough when a follower or the leader is isolated", s.Granted, tick)
	}
	if s.Granted != seconds(requested) {
		d.Notes = append(d.Notes, fmt.Sprintf("%s grants a session timeout of %v for the requested %v", s.Address, s.Granted, requested))
	}
}

// checkZxid checks the counter in a zxid, its lower half. At its end the leader steps down.
func (d *diagnosis) checkZxid(s *serverState) {
	if part := float64(uint32(s.zxid)) / (1 << 32); part >= nearEnd {
		d.found("check zxid", s.Address, "restart the leader at a quiet time, which begins a new epoch",
			"the counter in %s is at %.1f %% of its range: at its end the leader steps down, and an election interrupts all clients", s.Zxid, 100*part)
	}
}
