// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// OverflowSequence is the number from which the parent's counter is near its end. The
// counter does not wrap at 2³¹ but sticks: from there on every node gets 2147483647, or
// a negative number when creates are pipelined. So from OverflowSequence on, order is by
// czxid, and names carry a nonce because the numbers no longer make them unique.
const OverflowSequence = 1<<31 - 1<<20

// NamePrefix returns the first part of a node's name; the server appends the sequence
// number. The tag is the czxid of the parent: numbers restart when a parent is reaped
// and created again. If a name recurred, a late delete could hit another client's node,
// and a lost claim could take that node for its own. The tag is the joining client's
// belief; the nonce is left out only where that belief is verified (see Queue.Join of package queue), and
// while numbers are unique.
func NamePrefix(tag int64, nonce string, mode Mode) string {
	if nonce != "" {
		nonce = "-" + nonce
	}
	return strconv.FormatInt(tag, 36) + nonce + mode.separator()
}

// SequenceSuffix is what the server appends to the name of a sequential node.
func SequenceSuffix(sequence int32) string { return fmt.Sprintf("%010d", sequence) }

// A Member is a child of the parent that belongs to the queue.
type Member struct {
	Name     string
	Sequence int32
	digits   uint8 // of the number, a sign included
	Mode     Mode
	Priority int16 // of a contender that has one
	Weight   int32 // permits that it claims; 0 for a contender that claims the queue as a whole
	Czxid    int64 // 0 if it was not needed and so not read
}

// Prefix returns the name without the number.
func (m Member) Prefix() string { return m.Name[:len(m.Name)-int(m.digits)] }

// Overflowed reports whether the number gives no order.
func (m Member) Overflowed() bool { return m.Sequence >= OverflowSequence || m.Sequence < 0 }

// Conflicts reports whether the member's claim and one of that mode exclude each other.
func (m Member) Conflicts(mode Mode) bool { return m.Mode.conflicts(mode) }

// ParseMember parses the name of a child. It reports false for a child that is not a
// member: a name without a separator and a number at its end belongs to another program,
// and its node is left alone.
func ParseMember(name string) (Member, bool) {
	for _, sep := range separators {
		i := strings.LastIndex(name, sep.text)
		if i < 0 {
			continue
		}
		digits := name[i+len(sep.text):]
		// The server prints %010d: ten digits, or a sign and nine or ten.
		unsigned, negative := strings.CutPrefix(digits, "-")
		if len(unsigned) != 10 && (!negative || len(unsigned) != 9) || strings.Trim(unsigned, "0123456789") != "" {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil {
			continue
		}
		m := Member{Name: name, Sequence: int32(n), digits: uint8(len(digits)), Mode: sep.mode}
		if sep.text == "lock-" {
			m.Weight, m.Priority = parseWeight(name[:i]), parsePriority(name[:i])
		}
		return m, true
	}
	return Member{}, false
}

// ParseMembers returns the children that are members of the queue.
func ParseMembers(children []string) []Member {
	members := make([]Member, 0, len(children))
	for _, name := range children {
		if m, ok := ParseMember(name); ok {
			members = append(members, m)
		}
	}
	return members
}

// compareMembers orders by number while numbers order, and by czxid after.
func compareMembers(a, b Member) int {
	if a.Overflowed() != b.Overflowed() {
		if a.Overflowed() {
			return 1
		}
		return -1
	}
	if a.Overflowed() {
		return cmp.Compare(a.Czxid, b.Czxid)
	}
	return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.Czxid, b.Czxid))
}

// Unordered returns the names whose czxid must be read before members can be
// ordered: those whose number gives no order, and those that tie.
func Unordered(members []Member) []string {
	var names []string
	seen := make(map[int32]int, len(members))
	for _, m := range members {
		if !m.Overflowed() {
			seen[m.Sequence]++
		}
	}
	for _, m := range members {
		if m.Czxid == 0 && (m.Overflowed() || seen[m.Sequence] > 1) {
			names = append(names, m.Name)
		}
	}
	return names
}

// Sort sorts the front of the queue first.
func Sort(members []Member) { slices.SortFunc(members, compareMembers) }

// IsContender reports whether a node of that name, below a queue's path, is a contender of this
// or another library.
func IsContender(name string) bool {
	_, ok := ParseMember(name)
	return ok
}
