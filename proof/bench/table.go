// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"strings"
)

// cases is the table, in the order in which they run.
var cases = []*benchCase{
	uncontended, oneSession, handOff8, handOff32, handOver, tryLocks, guardedWrites,
	waiters10, waiters1000, waiters5000, burst, idleHolds, idleWaiters, runLoops, slotStorm,
	killed, partitioned, serverLost, slowWrites, serviceCalls, serviceSteady, serviceWaiters, simulatedServer,
}

// matching returns the cases whose names match, and an error that lists all names if there are none.
func matching(match func(string) bool) ([]*benchCase, error) {
	var found []*benchCase
	var names []string
	for _, c := range cases {
		names = append(names, c.name)
		if match(c.name) {
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no case matches: there are %s", strings.Join(names, ", "))
	}
	return found, nil
}
