// SPDX-License-Identifier: Apache-2.0

package protocol

import "slices"

// permits returns how many of the permits the member counts for: all of them if it claims the queue
// as a whole, as a lock does.
func (m Member) permits(limit int) int {
	if m.Weight == 0 || int(m.Weight) > limit {
		return limit
	}
	return int(m.Weight)
}

// Decide is the grant rule, of a queue of so many permits. The limit counts only for a contender that
// claims permits. listed is false if own is not in the queue, and then there is no decision.
func (o *Order) Decide(own Member, limit int) (d Decision, listed bool) {
	if own.Weight == 0 {
		return o.decideWhole(own)
	}
	return o.decidePermits(own, limit)
}

// decidePermits is the grant rule of permits, a function of the listed names and the limit: the
// contender is granted its permits if they fit beside the permits of all members ahead of it, holders
// and waiters. So it never takes permits that a waiter ahead needs, and each contender gets all of
// its permits together: none holds some while it waits for others.
//
// The decision is not complete: the departure of any member ahead can make room.
func (o *Order) decidePermits(own Member, limit int) (d Decision, listed bool) {
	i, listed := slices.BinarySearchFunc(o.Members, own, compareMembers)
	if !listed || o.Members[i].Name != own.Name {
		return Decision{}, false
	}
	free := limit - int(own.Weight)
	for _, m := range o.Members[:i] {
		if free -= m.permits(limit); free < 0 { // after limit members at most
			return Decision{Ahead: o.Members[i-1 : i]}, true
		}
	}
	return Decision{Before: i}, true
}

// PermitsTaken returns how many permits the members have or wait for.
func PermitsTaken(members []Member, limit int) (taken int) {
	for _, m := range members {
		taken += m.permits(limit)
	}
	return taken
}
