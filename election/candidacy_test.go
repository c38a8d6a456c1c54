// SPDX-License-Identifier: Apache-2.0

package election

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/candidacy"
)

func TestTurnFollowsFromTargetAndPriorities(t *testing.T) {
	plain, low, high := candidacy.Rank{Name: "plain"}, candidacy.Rank{Name: "low", Priority: 1}, candidacy.Rank{Name: "high", Priority: 9}
	for _, c := range []struct {
		what     string
		target   string
		priority int
		behind   []candidacy.Rank
		want     turn
	}{
		{"no request and no priority", "", 0, []candidacy.Rank{plain}, lead},
		{"the target is behind", "plain", 0, []candidacy.Rank{high, plain}, yield},
		{"the target is behind, and the candidate has a priority", "plain", 9, []candidacy.Rank{plain}, yield},
		{"the target has left", "gone", 0, []candidacy.Rank{plain}, lead},
		{"the target has left, and another has a priority", "gone", 0, []candidacy.Rank{plain, low}, awaitHigher},
		{"the candidate is the target", "own", 0, []candidacy.Rank{high}, lead},
		{"a higher priority is behind", "", 1, []candidacy.Rank{plain, high}, awaitHigher},
		{"an equal priority is behind", "", 1, []candidacy.Rank{low}, lead},
		{"a lower priority is behind", "", 2, []candidacy.Rank{low, plain}, lead},
	} {
		require.Equal(t, c.want, turnOf("own", c.target, c.priority, c.behind), c.what)
	}
}

func TestSignCountsOnlyForItsFirstCandidateAndFromItsHeir(t *testing.T) {
	behind := []candidacy.Rank{{Name: "low", Priority: 1}, {Name: "high", Priority: 9}, {Name: "later", Priority: 10}}
	require.True(t, sign{First: 7, Node: "high"}.isFor(7, 1, behind))
	require.False(t, sign{First: 7, Node: "high"}.isFor(8, 1, behind), "of another first candidate")
	require.False(t, sign{First: 7, Node: "low"}.isFor(7, 1, behind), "of no higher priority")
	require.False(t, sign{First: 7, Node: "later"}.isFor(7, 1, behind), "of one behind another that may be dead")
	require.False(t, sign{First: 7, Node: "gone"}.isFor(7, 1, behind), "of one that is not behind")
}

func TestDataOfAnotherProgramOrVersionNamesNoCandidate(t *testing.T) {
	for _, data := range []string{"10 replicas", `{"format":2,"target":"x","first":"7","node":"high"}`, `{}`} {
		r, err := requests.Decode([]byte(data))
		require.ErrorContains(t, err, "a hand-over", "%s", data)
		require.Equal(t, request{}, r)
		s, err := signs.Decode([]byte(data))
		require.ErrorContains(t, err, "a sign", "%s", data)
		require.Equal(t, sign{}, s)
	}
}
