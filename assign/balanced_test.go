// SPDX-License-Identifier: Apache-2.0

package assign_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/quick"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/assign"
	"github.com/lockkeeper/lockkeeper/internal/need"
)

// partitions returns the names of n partitions.
func partitions(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("p%05d", i)
	}
	return names
}

// members returns a member for each weight that is not 0: a, b, …
func members(weights ...int) []assign.Member {
	var all []assign.Member
	for i, w := range weights {
		if w > 0 {
			all = append(all, assign.Member{ID: string(rune('a' + i)), Weight: w})
		}
	}
	return all
}

// share returns ⌈P·w/W⌉ for the member of that ID.
func share(partitions int, members []assign.Member, id string) int {
	w, sum := 0, 0
	for _, m := range members {
		sum += m.Weight
		if m.ID == id {
			w = m.Weight
		}
	}
	return (partitions*w + sum - 1) / sum
}

// requireBalanced requires that the result is complete, that no member has more than its share, rounded up, and that members of
// equal weights have equal numbers, but for one.
func requireBalanced(t *testing.T, in assign.Input, got map[string]string) {
	t.Helper()
	require.ElementsMatch(t, in.Partitions, slices.Collect(maps.Keys(got)))
	counts := map[string]int{}
	for _, id := range got {
		counts[id]++
	}
	for _, m := range in.Members {
		require.LessOrEqual(t, counts[m.ID], share(len(in.Partitions), in.Members, m.ID), "member %s of %v: %v", m.ID, in.Members, got)
		for _, n := range in.Members {
			if m.Weight == n.Weight {
				require.LessOrEqual(t, counts[m.ID]-counts[n.ID], 1, "%v: %v", in.Members, got)
			}
		}
	}
	for _, m := range in.Members {
		delete(counts, m.ID)
	}
	require.Empty(t, counts, "members that do not exist")
}

// moves returns the partitions that two assignments give to different members, as "from to" pairs.
func moves(from, to map[string]string) (pairs []string) {
	for p, id := range to {
		if from[p] != id {
			pairs = append(pairs, from[p]+" "+id)
		}
	}
	return pairs
}

func TestBalancedMovesAtMostTheShareOfMemberThatJoinsOrLeaves(t *testing.T) {
	need.NoRaceDetector(t)
	changes := 0
	for n := range 8 {
		// Every state that up to four members of these weights reach by joining and leaving in any order.
		for _, weights := range [][]int{{1, 1, 1, 1}, {1, 2, 1, 3}, {3, 3, 2, 1}, {1, 1, 5, 2}, {2, 7, 1, 1}} {
			changes += explore(t, partitions(n), weights)
		}
	}
	require.Greater(t, changes, 1000)
	t.Logf("%d changes", changes)
}

// explore checks each change from each state that can be reached, and returns their number.
func explore(t *testing.T, names []string, weights []int) (changes int) {
	t.Helper()
	type state struct {
		present uint // a bit for each member
		current string
	}
	seen := map[state]map[string]string{{}: {}}
	for todo := []state{{}}; len(todo) > 0; todo = todo[1:] {
		at := todo[0]
		for i := range weights {
			next := at.present ^ 1<<i
			if next == 0 {
				continue
			}
			before, after := present(weights, at.present), present(weights, next)
			in := assign.Input{Partitions: names, Members: after, Current: seen[at]}
			got, err := assign.Balanced(in)
			require.NoError(t, err)
			requireBalanced(t, in, got)
			if at.present != 0 {
				changes++
				id := string(rune('a' + i))
				larger := after
				if len(before) > len(after) {
					larger = before
				}
				moved := moves(in.Current, got)
				require.LessOrEqual(t, len(moved), share(len(names), larger, id), "%v to %v: %v to %v", before, after, in.Current, got)
				for _, m := range moved {
					require.Contains(t, m, id, "%v to %v: %v to %v", before, after, in.Current, got)
				}
			}
			again, err := assign.Balanced(assign.Input{Partitions: names, Members: after, Current: got})
			require.NoError(t, err)
			require.Equal(t, got, again, "balanced records stay")
			s := state{next, fmt.Sprint(got)}
			if _, known := seen[s]; !known {
				seen[s] = got
				todo = append(todo, s)
			}
		}
	}
	return changes
}

func present(weights []int, bits uint) []assign.Member {
	some := slices.Clone(weights)
	for i := range some {
		if bits&(1<<i) == 0 {
			some[i] = 0
		}
	}
	return members(some...)
}

func TestBalancedIsBalancedFromAnyCurrentAssignment(t *testing.T) {
	need.NoRaceDetector(t)
	property := func(seed uint64) bool {
		r := rand.New(rand.NewPCG(seed, 0))
		weights := make([]int, 1+r.IntN(12))
		for i := range weights {
			weights[i] = 1 + r.IntN(20)
		}
		in := assign.Input{Partitions: partitions(r.IntN(200)), Members: members(weights...), Current: map[string]string{"former": "a"}}
		for _, p := range in.Partitions {
			in.Current[p] = string(rune('a' + r.IntN(20))) // some are no members
		}
		kept := maps.Clone(in.Current)
		got, err := assign.Balanced(in)
		require.NoError(t, err)
		requireBalanced(t, in, got)
		require.Equal(t, kept, in.Current, "the input is not changed")
		// The order of the input does not matter.
		r.Shuffle(len(in.Partitions), func(i, j int) { in.Partitions[i], in.Partitions[j] = in.Partitions[j], in.Partitions[i] })
		r.Shuffle(len(in.Members), func(i, j int) { in.Members[i], in.Members[j] = in.Members[j], in.Members[i] })
		again, err := assign.Balanced(in)
		require.NoError(t, err)
		require.Equal(t, got, again)
		// One member more, or one less, moves at most its share.
		in.Current = got
		joined := assign.Member{ID: "new", Weight: 1 + r.IntN(20)}
		larger := append(slices.Clone(in.Members), joined)
		more, err := assign.Balanced(assign.Input{Partitions: in.Partitions, Members: larger, Current: got})
		require.NoError(t, err)
		require.LessOrEqual(t, len(moves(got, more)), share(len(in.Partitions), larger, "new"))
		left := in.Members[0]
		if in.Members = in.Members[1:]; len(in.Members) > 0 {
			fewer, err := assign.Balanced(in)
			require.NoError(t, err)
			require.LessOrEqual(t, len(moves(got, fewer)), share(len(in.Partitions), append(slices.Clone(in.Members), left), left.ID))
		}
		return true
	}
	require.NoError(t, quick.Check(property, &quick.Config{MaxCount: 300}))
}

func TestBalancedRefusesInvalidInput(t *testing.T) {
	for want, in := range map[string]assign.Input{
		"there are partitions and no members":                  {Partitions: []string{"p"}},
		`partition "p" occurs twice`:                           {Partitions: []string{"p", "q", "p"}, Members: members(1)},
		`member "a" occurs twice`:                              {Members: append(members(1), members(1)...)},
		`weight 0 of member "a" is not between 1 and 1000000`:  {Members: []assign.Member{{ID: "a"}}},
		`weight -1 of member "a" is not between 1 and 1000000`: {Members: []assign.Member{{ID: "a", Weight: -1}}},
	} {
		_, err := assign.Balanced(in)
		require.EqualError(t, err, want)
	}
	got, err := assign.Balanced(assign.Input{})
	require.NoError(t, err)
	require.Empty(t, got)
}

func BenchmarkBalanced(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			in := assign.Input{Partitions: partitions(n)}
			for i := range 50 {
				in.Members = append(in.Members, assign.Member{ID: fmt.Sprint(i), Weight: 1})
			}
			var err error
			in.Current, err = assign.Balanced(in)
			require.NoError(b, err)
			in.Members = append(in.Members, assign.Member{ID: "new", Weight: 1})
			for b.Loop() {
				_, _ = assign.Balanced(in)
			}
		})
	}
}
