// SPDX-License-Identifier: Apache-2.0

package epoch_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/epoch"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Two elections share one epoch path. The own node of each leader exists, so only the epoch decides.
func TestLeaderSupersededWhileItsNodeExistsWritesNothing(t *testing.T) {
	bubble(t, func(s servers) {
		a, b := s.candidate("a"), s.candidateAt("b", "/election/other")
		aTerm, first := a.lead()
		bTerm, second := b.lead()
		_, err := second.Commit(s.Context(), set("b"))
		require.NoError(s, err)

		_, err = first.Commit(s.Context(), set("a"))
		s.requireStale(err, 1, 2)
		require.ErrorIs(s, err, fencing.ErrStale)
		require.NotErrorIs(s, err, recipes.ErrLost)
		require.NoError(s, aTerm.Err())
		s.requireState("b")

		e, err := a.epochs.Claim(s.Context(), aTerm.Claim)
		require.NoError(s, err)
		require.Equal(s, first, e, "one term has one epoch")
		others, err := epoch.New(a.Client, path, nil)
		require.NoError(s, err)
		_, err = others.Claim(s.Context(), aTerm.Claim)
		require.ErrorIs(s, err, fencing.ErrStale)
		require.ErrorContains(s, err, fmt.Sprintf("no epoch of %s for token %v", path, aTerm.Token()))
		require.ErrorContains(s, err, `epoch 2 belongs to "b"`)

		require.NoError(s, aTerm.Resign(s.Context()))
		_, third := a.lead()
		require.Equal(s, int64(3), third.Number())
		_, err = second.Commit(s.Context(), set("b again"))
		s.requireStale(err, 2, 3)
		require.NoError(s, bTerm.Err())
	})
}

func TestNodeWrittenByOperatorEndsEpochAndSetsCount(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.candidate("a")
		term, e := a.lead()
		same, _, err := s.Get(path)
		require.NoError(s, err)

		require.NoError(s, s.Set(path, same))
		_, err = e.Commit(s.Context(), set("stale write"))
		s.requireStale(err, 1, 1)
		require.ErrorContains(s, err, "rewritten by an operator")

		require.NoError(s, s.Set(path, []byte(`{"format":1,"epoch":41}`)))
		_, err = e.Commit(s.Context(), set("stale write"))
		s.requireStale(err, 1, 41)
		require.ErrorContains(s, err, "epoch 41 was written by an operator")
		require.NoError(s, term.Resign(s.Context()))
		_, err = e.Commit(s.Context(), set("stale write"))
		s.requireStale(err, 1, 41)
		require.ErrorIs(s, err, recipes.ErrLost)
		s.requireState("none")

		term, e = a.lead()
		require.Equal(s, int64(42), e.Number())

		require.NoError(s, s.Set(path, []byte("words")))
		_, err = e.Commit(s.Context(), set("stale write"))
		require.ErrorIs(s, err, fencing.ErrStale)
		require.ErrorContains(s, err, `epoch 42`)
		require.ErrorContains(s, err, `data is not an epoch: "words"`)
		require.NoError(s, s.Set(path, nil))
		_, err = e.Commit(s.Context(), set("stale write"))
		require.ErrorIs(s, err, fencing.ErrStale)
		require.ErrorContains(s, err, "was emptied")
		require.NoError(s, term.Err())
		s.requireState("none")
	})
}

// The new epoch 1 has the number and the version of the old one. Only the own node of the leader distinguishes them.
func TestNodeDeletedByOperatorEndsEpochAndRestartsCount(t *testing.T) {
	bubble(t, func(s servers) {
		a, b := s.candidate("a"), s.candidate("b")
		_, old := a.lead()
		require.NoError(s, s.Delete(path))
		_, err := old.Commit(s.Context(), set("stale write"))
		require.ErrorIs(s, err, fencing.ErrStale)
		require.ErrorContains(s, err, "epoch 1 of "+path)
		require.ErrorContains(s, err, "its node was deleted")

		a.link.Hold(zktest.Both)
		_, e := b.lead()
		require.Equal(s, int64(1), e.Number())
		_, err = e.Commit(s.Context(), set("b"))
		require.NoError(s, err)
		a.link.Release()
		_, err = old.Commit(s.Context(), set("stale write"))
		s.requireStale(err, 1, 1)
		stale := s.stale(err)
		require.ErrorIs(s, err, recipes.ErrLost)
		require.Less(s, stale.Token, stale.Newest.Token)
		s.requireState("b")
	})
}

// The versions of a recreated node restart, so that one of them is that which the leader checks.
func TestNodeRecreatedByOperatorMayPassForOldOneUntilTermEnds(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.candidate("a")
		term, e := a.lead()
		require.NoError(s, s.Delete(path))
		require.NoError(s, s.Create(path, []byte(`{"format":1,"epoch":41}`)))
		_, err := e.Commit(s.Context(), set("a"))
		require.NoError(s, err, "the documentation warns of this")

		require.NoError(s, s.Set(path, []byte(`{"format":1,"epoch":41}`)))
		_, err = e.Commit(s.Context(), set("stale write"))
		s.requireStale(err, 1, 41)
		require.NoError(s, term.Resign(s.Context()))
		_, next := a.lead()
		require.Equal(s, int64(42), next.Number())
		_, err = e.Commit(s.Context(), set("stale write"))
		s.requireStale(err, 1, 42)
		s.requireState("a")
	})
}

// The term may have claimed epoch 1, which the operator then ended by writing epoch 2.
func TestTermThatMayHaveHadEpochClaimsNoneAfterOperator(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.candidate("a")
		term, _ := a.claimUnanswered()
		require.NoError(s, s.Set(path, []byte(`{"format":1,"epoch":2}`)))
		_, err := a.epochs.Claim(s.Context(), term.Claim)
		require.ErrorIs(s, err, fencing.ErrStale)
		require.ErrorContains(s, err, "epoch 2 was written by an operator")
		require.NoError(s, term.Resign(s.Context()))
		_, e := a.lead()
		require.Equal(s, int64(3), e.Number())
	})
}
