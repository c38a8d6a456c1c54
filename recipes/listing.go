// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"
)

// A listing is the queue below one parent as a server showed it at one moment. All
// callers that asked for it share it. It does not change.
type listing struct {
	parent     *zk.Stat // nil if the parent is missing
	members    []member
	highest    int32 // the largest number in a name with the parent's own tag, -1 if none
	overflowed bool  // such a name has a number that gives no order
	plain      bool  // numbers alone give the order

	uses atomic.Int32 // how many callers have searched for their predecessor
	sort sync.Once    // guards setting sorted
	// sorted has the members by number, from the second caller on: for the first one, a
	// scan is cheaper.
	sorted []member
}

func newListing(children []string, parent *zk.Stat) *listing {
	lst := &listing{parent: parent, members: parseMembers(children), highest: -1}
	lst.plain = len(unordered(lst.members)) == 0
	prefix := strconv.FormatInt(parent.Czxid, 36) + "-"
	for _, m := range lst.members {
		switch {
		case !strings.HasPrefix(m.name, prefix):
		case m.overflowed():
			lst.overflowed = true
		default:
			lst.highest = max(lst.highest, m.sequence)
		}
	}
	return lst
}

// nearest returns the member directly ahead of own, if any is, and whether own is
// listed at all. The listing must be plain.
func (lst *listing) nearest(own member) (ahead member, found, listed bool) {
	if lst.uses.Add(1) == 1 {
		for _, m := range lst.members {
			switch {
			case m.name == own.name:
				listed = true
			case m.sequence < own.sequence && (!found || ahead.sequence < m.sequence):
				ahead, found = m, true
			}
		}
		return ahead, found, listed
	}
	lst.sort.Do(func() {
		lst.sorted = slices.Clone(lst.members)
		sortMembers(lst.sorted)
	})
	i, listed := slices.BinarySearchFunc(lst.sorted, own, func(m, own member) int { return int(m.sequence) - int(own.sequence) })
	listed = listed && lst.sorted[i].name == own.name
	if i == 0 {
		return member{}, false, listed
	}
	return lst.sorted[i-1], true, listed
}

// A parent is a server's view of the node below which contenders queue.
type parent struct {
	czxid    int64
	writable bool // its data is empty or this library's, and so this client may write it
}
