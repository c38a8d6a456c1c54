// SPDX-License-Identifier: Apache-2.0

// Package protocol contains the names, records and order of contenders, and the rules that decide a
// grant: pure functions, without I/O.
package protocol

import "slices"

// An Order is the queue in its order, with what the grant rules need of it. It does not change.
type Order struct {
	Members []Member // all of them
	writers []Member // those that conflict with a reader
}

// NewOrder sorts members, which must be orderable: see Unordered.
func NewOrder(members []Member) *Order {
	o := &Order{Members: members}
	Sort(o.Members)
	for _, m := range o.Members {
		if m.Mode.conflicts(Read) {
			o.writers = append(o.writers, m)
		}
	}
	return o
}

// A Decision is what a listing means for one contender, its own.
//
// While the contender's own node exists, no contender can join ahead of it, so the members that
// keep it from being granted only become fewer.
type Decision struct {
	// Ahead are members that keep the contender from being granted, in the order of the queue.
	// The contender is granted if there are none. Otherwise it watches the last one.
	Ahead []Member
	// Complete is set if Ahead has all such members: when they are gone, the contender is
	// granted without another listing.
	Complete bool
	// Before is how many members are ahead of a contender whose permits fit.
	Before int
}

// Granted reports whether no member keeps the contender from being granted.
func (d Decision) Granted() bool { return len(d.Ahead) == 0 }

// maxRecheck is how many remaining members a contender checks one by one, before a listing costs
// less.
const maxRecheck = 4

// WithoutLast removes the last of d.Ahead, which is gone. If it is not known or too expensive to
// find out which ones remain, the decision is as before any listing.
func (d *Decision) WithoutLast() {
	d.Ahead = d.Ahead[:len(d.Ahead)-1]
	if !d.Complete || len(d.Ahead) > maxRecheck {
		*d = Decision{}
	}
}

// decideWhole is the grant rule of a contender that claims the queue as a whole, a function of the
// listed names alone. A reader waits for all writers
// ahead of it, and every other contender for all contenders ahead of it. So a reader never
// overtakes a waiting writer. listed is false if own is not in the queue, and then there is no
// decision.
func (o *Order) decideWhole(own Member) (d Decision, listed bool) {
	i, listed := slices.BinarySearchFunc(o.Members, own, compareMembers)
	if !listed || o.Members[i].Name != own.Name {
		return Decision{}, false
	}
	if own.Mode == Read {
		n, _ := slices.BinarySearchFunc(o.writers, own, compareMembers)
		return Decision{Ahead: o.writers[:n], Complete: true}, true
	}
	// All members ahead conflict, and go in their order, but for those that give up: watching the
	// nearest suffices, and a new listing then shows whether any is left.
	return Decision{Ahead: o.Members[max(0, i-1):i], Complete: i <= 1}, true
}

// DecideAlone is Decide for an exclusive contender, of members in any order that numbers order.
// It is cheaper than sorting them for a single decision.
func DecideAlone(members []Member, own Member) (d Decision, listed bool) {
	nearest, ahead := -1, 0
	for i, m := range members {
		switch {
		case m.Name == own.Name:
			listed = true
		case m.Sequence < own.Sequence:
			ahead++
			if nearest < 0 || members[nearest].Sequence < m.Sequence {
				nearest = i
			}
		}
	}
	if !listed || nearest < 0 {
		return Decision{Complete: listed}, listed
	}
	return Decision{Ahead: members[nearest : nearest+1], Complete: ahead == 1}, true
}
