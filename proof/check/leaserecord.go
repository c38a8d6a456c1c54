// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// LeaseRecord: the record of a lease is written by the rules. A record that was revoked is never written again. The TTL
// of a held record never decreases. A record is written as held only while no contender is ahead, and not as waiting
// after that; the exception is the write that creates the node, which grants nothing if a contender is ahead. A lease
// is granted only after its record was written as held while no contender was ahead. Nothing is excused. Histories that
// do not state which records are held are not checked.
var LeaseRecord = register(definition{
	name:    "lease-record",
	meaning: "the record of a lease is written by the rules for its kind",
	counts:  "versions of the records of leases that state whether the lease is held",
	judge:   leaseRecords,
	tests: func(t *timeline) (count int) {
		for _, n := range t.owned() {
			if t.statesHeld {
				count += len(n.renewed)
			}
		}
		return count
	},
})

func leaseRecords(t *timeline, found report) {
	if !t.statesHeld {
		return
	}
	front := t.fronts()
	for _, n := range t.nodes {
		if isContender(n.created) {
			n.checkVersions(front[n], found)
		}
	}
	for _, h := range t.holds {
		if !h.isLease() {
			continue
		}
		granting := func(v history.Event) bool {
			return v.Held && v.Zxid > front[h.node] && v.At <= h.granted.At+t.resolution()
		}
		if !slices.ContainsFunc(h.node.versions(), granting) {
			found("granted before its record was written as held while no contender was ahead", h.node.created, h.granted)
		}
	}
}

// versions returns all versions of the node's record.
func (n *node) versions() []history.Event { return append([]history.Event{n.created}, n.renewed...) }

// fronts returns for each contender node the zxid from which on no contender is ahead of it. None is ahead
// later either: each contender joins at the end of its queue.
func (t *timeline) fronts() map[*node]history.ID {
	front := map[*node]history.ID{}
	for _, queue := range t.contenders {
		ahead := history.ID(0)  // zxid of the last deletion of a node before the current transaction
		behind := history.ID(0) // the same, these nodes included
		for i, n := range queue {
			if i > 0 && n.created.Zxid > queue[i-1].created.Zxid {
				ahead = behind
			}
			front[n] = ahead
			behind = max(behind, n.goneIn())
		}
	}
	return front
}

// goneIn returns the zxid of the node's deletion, one after all others if it exists at the end.
func (n *node) goneIn() history.ID {
	if n.deleted.Kind == "" {
		return history.ID(never)
	}
	return n.deleted.Zxid
}

// checkVersions checks each version of a record against the one before. From the zxid front on, no contender is ahead.
func (n *node) checkVersions(front history.ID, found report) {
	before := n.created
	granted := before.Held && before.Zxid > front
	for _, v := range n.renewed {
		switch {
		case before.Cause == history.Revoked:
			found("a record was written after it had been revoked", before, v)
		case n.created.Lease == 0: // a holder's own record, which an administrator revoked
		case v.Held && v.Zxid <= front:
			found("a record was written as held while a contender was ahead", before, v)
		case v.Held && before.Held && v.Lease < before.Lease:
			found(fmt.Sprintf("the TTL of a held record was lowered from %v to %v", before.Lease, v.Lease), before, v)
		case !v.Held && granted:
			found("a record was written as waiting after it had been written as held while no contender was ahead", before, v)
		}
		granted = granted || v.Held && v.Zxid > front
		before = v
	}
}
