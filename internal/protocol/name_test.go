// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamesOfAllKnownRecipesAreInOneQueue(t *testing.T) {
	for name, sequence := range map[string]int32{
		NamePrefix(4294967298, "", Exclusive) + "0000000007":       7,
		NamePrefix(4294967298, "ABCDEF", Exclusive) + "2147483647": math.MaxInt32,
		"_c_2b1f5b2e-9f2c-4b1c-8d6e-0b8b2c6b8f10-lock-0000000012":  12, // Curator
		"_c_0af1b2c3d4e5f60718293a4b5c6d7e8f-lock-0000000003":      3,  // zk.Lock
		"lock-0000000001": 1, // zk.Lock of old
		"8f2d3c4b5a6978879695a4b3c2d1e0ff__lock__0000000044": 44, // Kazoo
		"x-lock-0000000000":                 0,
		"x-lock--000000001":                 -1,
		"x-lock--2147483648":                math.MinInt32,
		"x__lock__-2147483647":              -math.MaxInt32,
		"a-lock-0000000001-lock-0000000002": 2,
	} {
		m, ok := ParseMember(name)
		require.True(t, ok, name)
		require.Equal(t, name, m.Prefix()+name[len(name)-int(m.digits):])
		m.digits = 0
		require.Equal(t, Member{Name: name, Sequence: sequence}, m)
	}
}

func TestNameGivesModeOfContender(t *testing.T) {
	for _, mode := range []Mode{Exclusive, Write, Read} {
		for _, nonce := range []string{"", "NONCE"} {
			prefix := NamePrefix(4294967298, nonce, mode)
			m, ok := ParseMember(prefix + "0000000012")
			require.True(t, ok)
			require.Equal(t, Member{Name: prefix + "0000000012", Sequence: 12, digits: 10, Mode: mode}, m)
			require.Equal(t, prefix, m.Prefix())
		}
	}
	for name, mode := range map[string]Mode{ // Curator
		"_c_2b1f5b2e-9f2c-4b1c-8d6e-0b8b2c6b8f10-__READ__0000000012": Read,
		"_c_2b1f5b2e-9f2c-4b1c-8d6e-0b8b2c6b8f10-__WRIT__0000000012": Write,
		"8f2d3c4b5a6978879695a4b3c2d1e0ff__lock__0000000044":         Exclusive, // Kazoo
	} {
		m, ok := ParseMember(name)
		require.True(t, ok, name)
		require.Equal(t, mode, m.Mode, name)
	}
}

func TestForeignChildIsIgnored(t *testing.T) {
	foreign := []string{
		"", "lock", "lock-", "x-lock-", "config", "0000000001", "leader-0000000001", "latch-0000000001",
		"x-lock-1", "x-lock-000000001", "x-lock-00000000001", "x-lock-000000000a", "x-lock-+000000001",
		"x-lock-2147483648", "x-lock-9999999999", "x-lock--2147483649", "x-lock---00000001", "x-lock--00000001",
		"x-lock-0000000001 ", "x-lock-0000000001-", "x-lock-００００００００００", "x__lock__", "x__rlock__0000000001",
		"x-__READ__", "x-__WRITE__0000000001", "x-LOCK-0000000001",
	}
	for _, name := range foreign {
		_, ok := ParseMember(name)
		require.False(t, ok, "%q", name)
	}
	ours := NamePrefix(9, "", Exclusive) + "0000000005"
	require.Equal(t, []Member{{Name: ours, Sequence: 5, digits: 10}}, ParseMembers(append(foreign, ours)))
}

func FuzzNoNamePanicsTheParser(f *testing.F) {
	for _, name := range []string{"x-lock-0000000001", "x__lock__-000000001", "lock-", "-lock-lock-", "__lock__lock-0000000009"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		m, ok := ParseMember(name)
		if !ok {
			require.Zero(t, m)
			return
		}
		require.Equal(t, name, m.Name)
		// What it read is what a server writes, but for a needless zero after a sign.
		written := fmt.Sprintf("%010d", m.Sequence)
		require.True(t, strings.HasSuffix(name, written) || m.Sequence <= 0 && strings.HasSuffix(name, written[max(0, len(written)-9):]),
			"%q was read as %d", name, m.Sequence)
	})
}

func TestNumbersOrderTheLine(t *testing.T) {
	line := []Member{{Name: "c", Sequence: 12}, {Name: "a", Sequence: 0}, {Name: "b", Sequence: 9}}
	require.Empty(t, Unordered(line), "no read is needed")
	Sort(line)
	require.Equal(t, []string{"a", "b", "c"}, names(line))
}

func TestLateAndNegativeNumbersFollowTheOrdinaryOnesInCreationOrder(t *testing.T) {
	line := []Member{
		{Name: "third", Sequence: math.MaxInt32, Czxid: 30},
		{Name: "fifth", Sequence: math.MinInt32, Czxid: 50},
		{Name: "first", Sequence: OverflowSequence - 1},
		{Name: "fourth", Sequence: math.MaxInt32, Czxid: 40},
		{Name: "second", Sequence: OverflowSequence, Czxid: 20},
		{Name: "sixth", Sequence: -1, Czxid: 60},
	}
	for range 50 {
		rand.Shuffle(len(line), func(i, j int) { line[i], line[j] = line[j], line[i] })
		Sort(line)
		require.Equal(t, []string{"first", "second", "third", "fourth", "fifth", "sixth"}, names(line))
	}
}

func TestEqualNumbersAreOrderedByCreation(t *testing.T) {
	line := []Member{{Name: "later", Sequence: 4, Czxid: 9}, {Name: "sooner", Sequence: 4, Czxid: 8}, {Name: "before", Sequence: 3}}
	Sort(line)
	require.Equal(t, []string{"before", "sooner", "later"}, names(line))
}

func TestOrderOfAnyLineIsTotal(t *testing.T) {
	sequences := []int32{0, 1, 1, 2, OverflowSequence - 1, OverflowSequence, math.MaxInt32, math.MaxInt32, -1, math.MinInt32}
	var line []Member
	for i, n := range sequences {
		line = append(line, Member{Name: fmt.Sprint(i), Sequence: n, Czxid: int64(100 + i*7%len(sequences))})
	}
	for _, a := range line {
		for _, b := range line {
			require.Equal(t, compareMembers(a, b), -compareMembers(b, a), "%+v %+v", a, b)
			require.Equal(t, a.Name == b.Name, compareMembers(a, b) == 0, "%+v %+v", a, b)
			for _, c := range line {
				if compareMembers(a, b) < 0 && compareMembers(b, c) < 0 {
					require.Negative(t, compareMembers(a, c), "%+v %+v %+v", a, b, c)
				}
			}
		}
	}
}

func TestOnlyMembersThatNumbersDoNotOrderAreRead(t *testing.T) {
	line := []Member{
		{Name: "alone", Sequence: 3},
		{Name: "tie", Sequence: 4},
		{Name: "tie of known", Sequence: 4, Czxid: 77},
		{Name: "late", Sequence: OverflowSequence},
		{Name: "negative", Sequence: -5},
		{Name: "late but known", Sequence: math.MaxInt32, Czxid: 78},
	}
	require.Equal(t, []string{"tie", "late", "negative"}, Unordered(line))
}

func TestNamesDoNotRecurAcrossLivesOfAParent(t *testing.T) {
	seen := make(map[string]int64)
	for _, tag := range []int64{1, 35, 36, 37, 1295, 1296, 1 << 32, 1<<32 + 1, math.MaxInt64} {
		prefix := NamePrefix(tag, "", Exclusive)
		for other, otherTag := range seen {
			require.False(t, strings.HasPrefix(prefix+"0000000000", other), "%d and %d", tag, otherTag)
		}
		seen[prefix] = tag
	}
}

func TestNonceStandsInTheNameOnceNumbersHaveRunOut(t *testing.T) {
	require.Equal(t, "1z141z4-lock-", NamePrefix(4294967296, "", Exclusive))
	require.Equal(t, "1z141z4-NONCE-lock-", NamePrefix(4294967296, "NONCE", Exclusive))
	require.NotEqual(t, NamePrefix(1, "A", Exclusive), NamePrefix(1, "B", Exclusive))
}

func names(members []Member) []string {
	var names []string
	for _, m := range members {
		names = append(names, m.Name)
	}
	return names
}
