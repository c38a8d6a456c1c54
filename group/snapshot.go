// SPDX-License-Identifier: Apache-2.0

package group

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Member is a member as a server shows it.
type Member struct {
	ID       string
	Metadata []byte    // not to be changed: later changes of the same Observe share it
	Session  int64     // of the member's process
	Since    time.Time // when it joined in that session, by the clock of the ensemble's leader
	Joined   int64     // zxid with which it joined in that session
	Revision int64     // zxid with which it joined, or its metadata was last written
}

// memberOf returns the member of a node. A node that is not ephemeral is none.
func memberOf(id string, c recipes.Content) (m Member, ok bool) {
	if c.Stat.EphemeralOwner == 0 {
		return Member{}, false
	}
	return Member{
		ID: id, Metadata: bytes.Clone(c.Data), Session: c.Stat.EphemeralOwner, Since: time.UnixMilli(c.Stat.Ctime),
		Joined: c.Stat.Czxid, Revision: c.Stat.Mzxid,
	}, true
}

// A Snapshot contains the members of a group.
//
// The members are exactly those that existed at Revision, in ZooKeeper's commit order. The metadata
// of each is as new as that or newer.
type Snapshot struct {
	// Revision is the zxid with which a member last joined or left. It does not change with the
	// metadata. It is 0, and there are no members, if the group's node is missing. Otherwise it
	// does not fall from change to change, within one history of the ensemble.
	Revision int64
	Members  []Member // sorted by ID, which occurs once
}

// A Change is the difference between two snapshots. A member that has left and joined again in
// between is in Left and in Joined.
type Change struct {
	Snapshot          // after the change
	Joined   []Member // as they are in the snapshot
	Left     []Member // as they were in the one before
	Updated  []Member // those whose metadata was written, as they are now
}

// isEmpty reports whether the members are the same.
func (c Change) isEmpty() bool { return len(c.Joined)+len(c.Left)+len(c.Updated) == 0 }

// difference returns the change from one snapshot to a later one.
func difference(from, to Snapshot) Change {
	c := Change{Snapshot: to}
	before := from.Members
	for _, m := range to.Members {
		for len(before) > 0 && before[0].ID < m.ID {
			c.Left = append(c.Left, before[0])
			before = before[1:]
		}
		if len(before) == 0 || before[0].ID != m.ID {
			c.Joined = append(c.Joined, m)
			continue
		}
		old := before[0]
		before = before[1:]
		switch {
		case old.Joined != m.Joined, old.Session != m.Session: // an ensemble that was wiped or restored can give a zxid again
			c.Left, c.Joined = append(c.Left, old), append(c.Joined, m)
		case old.Revision != m.Revision:
			c.Updated = append(c.Updated, m)
		}
	}
	c.Left = append(c.Left, before...)
	return c
}

func sortMembers(members []Member) {
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
}
