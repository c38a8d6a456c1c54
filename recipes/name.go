// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// overflowSequence is the number from which the parent's counter is near its end. The
// counter does not wrap at 2³¹ but sticks: from there on every node gets 2147483647, or
// a negative number when creates are pipelined. So from overflowSequence on, order is by
// czxid, and names carry a nonce because the numbers no longer make them unique.
const overflowSequence = 1<<31 - 1<<20

// namePrefix returns the first part of a node's name; the server appends the sequence
// number. The tag is the czxid of the parent: numbers restart when a parent is reaped
// and created again. If a name recurred, a late delete could hit another client's node,
// and a lost claim could take that node for its own. The tag is the joining client's
// belief; the nonce is left out only where that belief is verified (see Queue.join), and
// while numbers are unique.
func namePrefix(tag int64, nonce string) string {
	if nonce != "" {
		nonce = "-" + nonce
	}
	return strconv.FormatInt(tag, 36) + nonce + "-lock-"
}

// sequenceSuffix is what the server appends to the name of a sequential node.
func sequenceSuffix(sequence int32) string { return fmt.Sprintf("%010d", sequence) }

// A member is a child of the parent that belongs to the queue.
type member struct {
	name     string
	sequence int32
	czxid    int64 // 0 if it was not needed and so not read
}

// overflowed reports whether the number gives no order.
func (m member) overflowed() bool { return m.sequence >= overflowSequence || m.sequence < 0 }

// separators stand between the recipe's part of a name and the number that the
// server appends: this package, Curator and zk.Lock; Kazoo.
var separators = []string{"lock-", "__lock__"}

// parseMember parses the name of a child. It reports false for a child that is not a
// member: a name without a separator and a number at its end belongs to another program,
// and its node is left alone.
func parseMember(name string) (member, bool) {
	for _, sep := range separators {
		i := strings.LastIndex(name, sep)
		if i < 0 {
			continue
		}
		digits := name[i+len(sep):]
		// The server prints %010d: ten digits, or a sign and nine or ten.
		unsigned, negative := strings.CutPrefix(digits, "-")
		if len(unsigned) != 10 && (!negative || len(unsigned) != 9) || strings.Trim(unsigned, "0123456789") != "" {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil {
			continue
		}
		return member{name: name, sequence: int32(n)}, true
	}
	return member{}, false
}

// IsContender reports whether a node of that name, below a queue's path, is a contender of this
// or another library.
func IsContender(name string) bool {
	_, ok := parseMember(name)
	return ok
}

// parseMembers returns the children that are members of the queue.
func parseMembers(children []string) []member {
	members := make([]member, 0, len(children))
	for _, name := range children {
		if m, ok := parseMember(name); ok {
			members = append(members, m)
		}
	}
	return members
}

// compareMembers orders by number while numbers order, and by czxid after.
func compareMembers(a, b member) int {
	if a.overflowed() != b.overflowed() {
		if a.overflowed() {
			return 1
		}
		return -1
	}
	if a.overflowed() {
		return cmp.Compare(a.czxid, b.czxid)
	}
	return cmp.Or(cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.czxid, b.czxid))
}

// unordered returns the names whose czxid must be read before members can be
// ordered: those whose number gives no order, and those that tie.
func unordered(members []member) []string {
	var names []string
	seen := make(map[int32]int, len(members))
	for _, m := range members {
		if !m.overflowed() {
			seen[m.sequence]++
		}
	}
	for _, m := range members {
		if m.czxid == 0 && (m.overflowed() || seen[m.sequence] > 1) {
			names = append(names, m.name)
		}
	}
	return names
}

// sortMembers sorts the front of the queue first.
func sortMembers(members []member) { slices.SortFunc(members, compareMembers) }

// nearest returns the member directly ahead of own, if any is. The members must
// be orderable: see unordered.
func nearest(members []member, own member) (ahead member, found bool) {
	for _, m := range members {
		if m.name != own.name && compareMembers(m, own) < 0 && (!found || compareMembers(ahead, m) < 0) {
			ahead, found = m, true
		}
	}
	return ahead, found
}
