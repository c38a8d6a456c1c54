// SPDX-License-Identifier: Apache-2.0

package assign

import (
	"bytes"
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// An Input is what an assignment function computes an assignment from.
type Input struct {
	Partitions []string          // sorted; each occurs once
	Members    []Member          // sorted by ID; each occurs once
	Current    map[string]string // ID of the member that each partition is assigned to; it can lack partitions, and name former members
}

// A Member is a member as an assignment function sees it.
type Member struct {
	ID       string
	Weight   int    // Options.Weight of the member
	Metadata []byte // Options.Metadata of the member; nil while Absent
	Absent   bool   // it has left without notice, and its RejoinWait is not over
}

// clone returns a copy that an assignment function may change.
func (in Input) clone() Input {
	in.Partitions, in.Members, in.Current = slices.Clone(in.Partitions), slices.Clone(in.Members), maps.Clone(in.Current)
	for i := range in.Members {
		in.Members[i].Metadata = bytes.Clone(in.Members[i].Metadata)
	}
	return in
}

// MaxWeight bounds Options.Weight.
const MaxWeight = 1_000_000

// Balanced returns the ID of the member for each partition. It changes as little of in.Current as balance permits: it is the
// default of Options.Assign.
//
// Let P be the number of partitions and W the sum of the weights. A member of weight w gets at most ⌈P·w/W⌉ partitions, and
// members of equal weights get numbers that differ by at most one. If in.Current is balanced, a member that joins or leaves moves at
// most ⌈P·w/W⌉ partitions, to or from itself only. A partition that is added or removed moves no other, but for balance.
//
// It is a pure function: equal inputs have equal results, and it changes nothing in the input. It returns an error if there are
// partitions and no members, or if a name occurs twice or a weight is not between 1 and MaxWeight.
func Balanced(in Input) (map[string]string, error) {
	partitions, members, err := in.sorted()
	if err != nil {
		return nil, err
	}
	now := holdings(partitions, members, in.Current)
	quotas := quotasOf(len(partitions), members, now)
	assigned := make(map[string]string, len(partitions))
	for _, m := range members {
		for _, p := range now[m.ID][:min(len(now[m.ID]), quotas[m.ID])] {
			assigned[p] = m.ID
			quotas[m.ID]--
		}
	}
	next := 0 // the member that has the next quota
	for _, p := range partitions {
		if _, kept := assigned[p]; kept {
			continue
		}
		for quotas[members[next].ID] == 0 {
			next++
		}
		assigned[p] = members[next].ID
		quotas[members[next].ID]--
	}
	return assigned, nil
}

// sorted returns the partitions and the members in the order of their names.
func (in Input) sorted() ([]string, []Member, error) {
	partitions, members := slices.Sorted(slices.Values(in.Partitions)), slices.Clone(in.Members)
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	for i, p := range partitions {
		if i > 0 && partitions[i-1] == p {
			return nil, nil, fmt.Errorf("partition %q occurs twice", p)
		}
	}
	for i, m := range members {
		switch {
		case i > 0 && members[i-1].ID == m.ID:
			return nil, nil, fmt.Errorf("member %q occurs twice", m.ID)
		case m.Weight < 1 || m.Weight > MaxWeight:
			return nil, nil, fmt.Errorf("weight %d of member %q is not between 1 and %d", m.Weight, m.ID, MaxWeight)
		}
	}
	if len(partitions) > 0 && len(members) == 0 {
		return nil, nil, errors.New("there are partitions and no members")
	}
	return partitions, members, nil
}

// holdings returns the partitions that each of the members has now, sorted.
func holdings(partitions []string, members []Member, current map[string]string) map[string][]string {
	now := make(map[string][]string, len(members))
	for _, m := range members {
		now[m.ID] = nil
	}
	for _, p := range partitions {
		if held, isMember := now[current[p]]; isMember {
			now[current[p]] = append(held, p)
		}
	}
	return now
}

// quotasOf returns how many of the partitions each member is to have: Adams's method of apportionment. A member's k-th seat has
// rank (k-1)/weight, and the seats of the lowest ranks are taken.
//
// The ranks of one member do not depend on the others. So a new member takes its own seats from the rest, and no seat moves between
// two of these; and it has no seat above its share, rounded up. Methods that also guarantee the share rounded down exist, but
// there a member that joins can move seats between others. Among seats of one rank, those that are held now come first.
func quotasOf(partitions int, members []Member, now map[string][]string) map[string]int {
	quotas := make(map[string]int, len(members))
	var free seats
	for _, m := range members {
		quotas[m.ID] = 0
		free = append(free, seat{member: m.ID, weight: int64(m.Weight), held: len(now[m.ID])})
	}
	heap.Init(&free)
	for range partitions {
		s := &free[0]
		quotas[s.member]++
		s.before++
		heap.Fix(&free, 0)
	}
	return quotas
}

// A seat is the next seat of a member.
type seat struct {
	member string
	weight int64
	before int64 // seats of the member that are taken
	held   int   // partitions that the member has now
}

func (s seat) isHeld() bool { return s.before < int64(s.held) }

// seats is a heap whose first element is the next seat to be taken.
type seats []seat

func (s seats) Len() int      { return len(s) }
func (s seats) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *seats) Push(any)     { panic("assign: the number of members is constant") }
func (s *seats) Pop() any     { panic("assign: the number of members is constant") }

func (s seats) Less(i, j int) bool {
	a, b := s[i], s[j]
	if x, y := a.before*b.weight, b.before*a.weight; x != y {
		return x < y
	}
	if a.isHeld() != b.isHeld() {
		return a.isHeld()
	}
	return a.member < b.member
}

// check returns what is wrong with an assignment: each partition has one of the members, and nothing else is assigned.
func (in Input) check(assigned map[string]string) error {
	ids := make(map[string]bool, len(in.Members))
	for _, m := range in.Members {
		ids[m.ID] = true
	}
	known := make(map[string]bool, len(in.Partitions))
	for _, p := range in.Partitions {
		known[p] = true
		switch member, found := assigned[p]; {
		case !found:
			return fmt.Errorf("partition %q has no member", p)
		case !ids[member]:
			return fmt.Errorf("partition %q has %q, which is not a member", p, member)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(assigned)) {
		if !known[p] {
			return fmt.Errorf("%q is not a partition", p)
		}
	}
	return nil
}
