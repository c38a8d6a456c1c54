// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// lateSequence is where the parent's counter nears its end. It does not wrap at
// 2³¹ but sticks: from there on every node gets 2147483647, or a negative number
// when creates are pipelined. So from here on order is by czxid, and names carry
// a nonce because the numbers no longer make them unique.
const lateSequence = 1<<31 - 1<<20

// namePrefix is what the name of a node begins with; the server appends the
// sequence number. The tag is the czxid of the parent: numbers restart when a
// parent is reaped and made again, and a name that recurred would let a late
// delete hit another client's node, and a lost claim take that for its own. The
// tag is what the joining client believes; the nonce is left out only where that
// is sure (see Line.join), and while numbers are unique.
func namePrefix(tag int64, nonce string) string {
	if nonce != "" {
		nonce = "-" + nonce
	}
	return strconv.FormatInt(tag, 36) + nonce + "-lock-"
}

// sequenceSuffix is what the server appends to the name of a sequential node.
func sequenceSuffix(sequence int32) string { return fmt.Sprintf("%010d", sequence) }

// A member is a child of the parent that stands in line.
type member struct {
	name     string
	sequence int32
	czxid    int64 // 0 where it was not needed, and so not read
}

// late says that the number says nothing about the order.
func (m member) late() bool { return m.sequence >= lateSequence || m.sequence < 0 }

// separators stand between what a recipe puts into a name and the number that
// the server appends: this package, Curator and zk.Lock; Kazoo.
var separators = []string{"lock-", "__lock__"}

// parseMember reads the name of a child. Not every child stands in line: what
// does not end in a separator and a number is somebody else's, and is left alone.
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

// parseMembers keeps those children that stand in line.
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
	if a.late() != b.late() {
		if a.late() {
			return 1
		}
		return -1
	}
	if a.late() {
		return cmp.Compare(a.czxid, b.czxid)
	}
	return cmp.Or(cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.czxid, b.czxid))
}

// unordered returns the names whose czxid must be read before members can be
// ordered: those of late ones, and of ordinary ones that tie.
func unordered(members []member) []string {
	var names []string
	seen := make(map[int32]int, len(members))
	for _, m := range members {
		if !m.late() {
			seen[m.sequence]++
		}
	}
	for _, m := range members {
		if m.czxid == 0 && (m.late() || seen[m.sequence] > 1) {
			names = append(names, m.name)
		}
	}
	return names
}

// sortMembers puts the front of the line first.
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
