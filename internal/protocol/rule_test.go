// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// watched returns the member that own watches, none if it is granted.
func watched(t *testing.T, members []Member, own Member) (ahead Member, found bool) {
	t.Helper()
	d, listed := NewOrder(slices.Clone(members)).decideWhole(own)
	require.True(t, listed)
	if d.Granted() {
		return Member{}, false
	}
	return d.Ahead[len(d.Ahead)-1], true
}

func TestWriterWatchesTheOneDirectlyAhead(t *testing.T) {
	own := Member{Name: "own", Sequence: 7}
	line := []Member{{Name: "next", Sequence: 8}, {Name: "far", Sequence: 2}, own, {Name: "near", Sequence: 6, Mode: Read}, {Name: "middle", Sequence: 4}}
	ahead, found := watched(t, line, own)
	require.True(t, found)
	require.Equal(t, "near", ahead.Name)

	_, found = watched(t, []Member{own, {Name: "next", Sequence: 8}}, own)
	require.False(t, found)
	_, listed := NewOrder(nil).decideWhole(own)
	require.False(t, listed)
	_, listed = DecideAlone(nil, own)
	require.False(t, listed)
}

func TestReaderWatchesItsNearestWriterAndKnowsTheOthers(t *testing.T) {
	own := Member{Name: "own", Sequence: 7, Mode: Read}
	line := []Member{
		{Name: "reader", Sequence: 6, Mode: Read},
		{Name: "mutex", Sequence: 2},
		own,
		{Name: "writer", Sequence: 5, Mode: Write},
		{Name: "first", Sequence: 1, Mode: Read},
		{Name: "behind", Sequence: 9, Mode: Write},
	}
	d, listed := NewOrder(line).decideWhole(own)
	require.True(t, listed)
	require.True(t, d.Complete)
	require.Equal(t, []string{"mutex", "writer"}, names(d.Ahead))

	_, found := watched(t, []Member{own, {Name: "reader", Sequence: 6, Mode: Read}, {Name: "behind", Sequence: 9}}, own)
	require.False(t, found)
}

func TestOverflowedMemberWatchesTheLastOrdinaryOneOrAnEarlierOverflowedOne(t *testing.T) {
	own := Member{Name: "own", Sequence: math.MaxInt32, Czxid: 20}
	ordinary := []Member{{Name: "low", Sequence: 1}, {Name: "high", Sequence: OverflowSequence - 1}}
	ahead, found := watched(t, append(ordinary, own, Member{Name: "after", Sequence: -3, Czxid: 21}), own)
	require.True(t, found)
	require.Equal(t, "high", ahead.Name)

	ahead, found = watched(t, append(ordinary, own, Member{Name: "before", Sequence: -3, Czxid: 19}), own)
	require.True(t, found)
	require.Equal(t, "before", ahead.Name)
}

// Curator's reader that holds the write lock as well has the number of the writer.
func TestReaderWithNumberOfWriterIsOrderedByCreation(t *testing.T) {
	writer, reader := Member{Name: "w", Sequence: 3, Czxid: 30, Mode: Write}, Member{Name: "r", Sequence: 3, Czxid: 35, Mode: Read}
	own := Member{Name: "own", Sequence: 4, Czxid: 32, Mode: Write}
	ahead, found := watched(t, []Member{reader, own, writer}, own)
	require.True(t, found)
	require.Equal(t, "r", ahead.Name)
}

func TestDecisionAgreesWithItsDefinition(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		line := make([]Member, 1+r.IntN(12))
		plain := r.IntN(2) == 0
		for i := range line {
			n := []int32{int32(r.IntN(5)), OverflowSequence + int32(r.IntN(2)), -1 - int32(r.IntN(2))}[r.IntN(3)]
			if plain {
				n = int32(i)
			}
			line[i] = Member{Name: fmt.Sprint(i), Sequence: n, Czxid: int64(1000 + i), Mode: Mode(r.IntN(3))}
		}
		r.Shuffle(len(line), func(i, j int) { line[i], line[j] = line[j], line[i] })
		own := line[r.IntN(len(line))]
		var conflicting []Member
		for _, m := range line {
			if compareMembers(m, own) < 0 && m.Mode.conflicts(own.Mode) {
				conflicting = append(conflicting, m)
			}
		}
		Sort(conflicting)
		ahead, found := watched(t, line, own)
		require.Equal(t, len(conflicting) > 0, found, "seed %d", seed)
		if found {
			require.Equal(t, conflicting[len(conflicting)-1], ahead, "seed %d", seed)
		}
		d, _ := NewOrder(slices.Clone(line)).decideWhole(own)
		if d.Complete {
			require.Equal(t, names(conflicting), names(d.Ahead), "seed %d", seed)
		}
		if plain && own.Mode != Read {
			alone, listed := DecideAlone(line, own)
			require.True(t, listed)
			require.Equal(t, names(d.Ahead), names(alone.Ahead), "seed %d", seed)
		}
	}
}
