// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamesOfAllKnownRecipesAreInOneQueue(t *testing.T) {
	for name, sequence := range map[string]int32{
		namePrefix(4294967298, "") + "0000000007":                 7,
		namePrefix(4294967298, "ABCDEF") + "2147483647":           math.MaxInt32,
		"_c_2b1f5b2e-9f2c-4b1c-8d6e-0b8b2c6b8f10-lock-0000000012": 12, // Curator
		"_c_0af1b2c3d4e5f60718293a4b5c6d7e8f-lock-0000000003":     3,  // zk.Lock
		"lock-0000000001": 1, // zk.Lock of old
		"8f2d3c4b5a6978879695a4b3c2d1e0ff__lock__0000000044": 44, // Kazoo
		"x-lock-0000000000":                 0,
		"x-lock--000000001":                 -1,
		"x-lock--2147483648":                math.MinInt32,
		"x__lock__-2147483647":              -math.MaxInt32,
		"a-lock-0000000001-lock-0000000002": 2,
	} {
		m, ok := parseMember(name)
		require.True(t, ok, name)
		require.Equal(t, member{name: name, sequence: sequence}, m)
	}
}

func TestForeignChildIsIgnored(t *testing.T) {
	foreign := []string{
		"", "lock", "lock-", "x-lock-", "config", "0000000001", "leader-0000000001", "latch-0000000001",
		"x-lock-1", "x-lock-000000001", "x-lock-00000000001", "x-lock-000000000a", "x-lock-+000000001",
		"x-lock-2147483648", "x-lock-9999999999", "x-lock--2147483649", "x-lock---00000001", "x-lock--00000001",
		"x-lock-0000000001 ", "x-lock-0000000001-", "x-lock-００００００００００", "x__lock__", "x__rlock__0000000001",
		"__READ__0000000001", "x-LOCK-0000000001",
	}
	for _, name := range foreign {
		_, ok := parseMember(name)
		require.False(t, ok, "%q", name)
	}
	ours := namePrefix(9, "") + "0000000005"
	require.Equal(t, []member{{name: ours, sequence: 5}}, parseMembers(append(foreign, ours)))
}

func FuzzNoNamePanicsTheParser(f *testing.F) {
	for _, name := range []string{"x-lock-0000000001", "x__lock__-000000001", "lock-", "-lock-lock-", "__lock__lock-0000000009"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		m, ok := parseMember(name)
		if !ok {
			require.Zero(t, m)
			return
		}
		require.Equal(t, name, m.name)
		// What it read is what a server writes, but for a needless zero after a sign.
		written := fmt.Sprintf("%010d", m.sequence)
		require.True(t, strings.HasSuffix(name, written) || m.sequence <= 0 && strings.HasSuffix(name, written[max(0, len(written)-9):]),
			"%q was read as %d", name, m.sequence)
	})
}

func TestNumbersOrderTheLine(t *testing.T) {
	line := []member{{name: "c", sequence: 12}, {name: "a", sequence: 0}, {name: "b", sequence: 9}}
	require.Empty(t, unordered(line), "no read is needed")
	sortMembers(line)
	require.Equal(t, []string{"a", "b", "c"}, names(line))
}

func TestLateAndNegativeNumbersFollowTheOrdinaryOnesInCreationOrder(t *testing.T) {
	line := []member{
		{name: "third", sequence: math.MaxInt32, czxid: 30},
		{name: "fifth", sequence: math.MinInt32, czxid: 50},
		{name: "first", sequence: overflowSequence - 1},
		{name: "fourth", sequence: math.MaxInt32, czxid: 40},
		{name: "second", sequence: overflowSequence, czxid: 20},
		{name: "sixth", sequence: -1, czxid: 60},
	}
	for range 50 {
		rand.Shuffle(len(line), func(i, j int) { line[i], line[j] = line[j], line[i] })
		sortMembers(line)
		require.Equal(t, []string{"first", "second", "third", "fourth", "fifth", "sixth"}, names(line))
	}
}

func TestEqualNumbersAreOrderedByCreation(t *testing.T) {
	line := []member{{name: "later", sequence: 4, czxid: 9}, {name: "sooner", sequence: 4, czxid: 8}, {name: "before", sequence: 3}}
	sortMembers(line)
	require.Equal(t, []string{"before", "sooner", "later"}, names(line))
}

func TestOrderOfAnyLineIsTotal(t *testing.T) {
	sequences := []int32{0, 1, 1, 2, overflowSequence - 1, overflowSequence, math.MaxInt32, math.MaxInt32, -1, math.MinInt32}
	var line []member
	for i, n := range sequences {
		line = append(line, member{name: fmt.Sprint(i), sequence: n, czxid: int64(100 + i*7%len(sequences))})
	}
	for _, a := range line {
		for _, b := range line {
			require.Equal(t, compareMembers(a, b), -compareMembers(b, a), "%+v %+v", a, b)
			require.Equal(t, a.name == b.name, compareMembers(a, b) == 0, "%+v %+v", a, b)
			for _, c := range line {
				if compareMembers(a, b) < 0 && compareMembers(b, c) < 0 {
					require.Negative(t, compareMembers(a, c), "%+v %+v %+v", a, b, c)
				}
			}
		}
	}
}

func TestOnlyMembersThatNumbersDoNotOrderAreRead(t *testing.T) {
	line := []member{
		{name: "alone", sequence: 3},
		{name: "tie", sequence: 4},
		{name: "tie of known", sequence: 4, czxid: 77},
		{name: "late", sequence: overflowSequence},
		{name: "negative", sequence: -5},
		{name: "late but known", sequence: math.MaxInt32, czxid: 78},
	}
	require.Equal(t, []string{"tie", "late", "negative"}, unordered(line))
}

func TestNearestIsTheOneDirectlyAhead(t *testing.T) {
	own := member{name: "own", sequence: 7}
	line := []member{{name: "next", sequence: 8}, {name: "far", sequence: 2}, own, {name: "near", sequence: 6}, {name: "middle", sequence: 4}}
	ahead, found := nearest(line, own)
	require.True(t, found)
	require.Equal(t, "near", ahead.name)

	_, found = nearest([]member{own, {name: "next", sequence: 8}}, own)
	require.False(t, found)
	_, found = nearest(nil, own)
	require.False(t, found)
}

func TestNearestOfALateMemberIsTheLastOrdinaryOneOrAnEarlierLateOne(t *testing.T) {
	own := member{name: "own", sequence: math.MaxInt32, czxid: 20}
	ordinary := []member{{name: "low", sequence: 1}, {name: "high", sequence: overflowSequence - 1}}
	ahead, found := nearest(append(ordinary, own, member{name: "after", sequence: -3, czxid: 21}), own)
	require.True(t, found)
	require.Equal(t, "high", ahead.name)

	ahead, found = nearest(append(ordinary, own, member{name: "before", sequence: -3, czxid: 19}), own)
	require.True(t, found)
	require.Equal(t, "before", ahead.name)
}

func TestNearestAgreesWithTheSortedLine(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		line := make([]member, 1+r.IntN(12))
		for i := range line {
			n := []int32{int32(r.IntN(5)), overflowSequence + int32(r.IntN(2)), -1 - int32(r.IntN(2))}[r.IntN(3)]
			line[i] = member{name: fmt.Sprint(i), sequence: n, czxid: int64(1000 + i)}
		}
		r.Shuffle(len(line), func(i, j int) { line[i], line[j] = line[j], line[i] })
		own := line[r.IntN(len(line))]
		ahead, found := nearest(line, own)
		sortMembers(line)
		i := slices.Index(line, own)
		require.Equal(t, i > 0, found, "seed %d", seed)
		if found {
			require.Equal(t, line[i-1], ahead, "seed %d", seed)
		}
	}
}

func TestNamesDoNotRecurAcrossLivesOfAParent(t *testing.T) {
	seen := make(map[string]int64)
	for _, tag := range []int64{1, 35, 36, 37, 1295, 1296, 1 << 32, 1<<32 + 1, math.MaxInt64} {
		prefix := namePrefix(tag, "")
		for other, otherTag := range seen {
			require.False(t, strings.HasPrefix(prefix+"0000000000", other), "%d and %d", tag, otherTag)
		}
		seen[prefix] = tag
	}
}

func TestNonceStandsInTheNameOnceNumbersHaveRunOut(t *testing.T) {
	require.Equal(t, "1z141z4-lock-", namePrefix(4294967296, ""))
	require.Equal(t, "1z141z4-NONCE-lock-", namePrefix(4294967296, "NONCE"))
	require.NotEqual(t, namePrefix(1, "A"), namePrefix(1, "B"))
}

func names(members []member) []string {
	var names []string
	for _, m := range members {
		names = append(names, m.name)
	}
	return names
}
