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

// Two elections that share one path: the own node of each is there, and the epoch decides.
func TestLeaderWhoIsSupersededWhileItsNodeLivesWritesNothing(t *testing.T) {
	bubble(t, func(s *stage) {
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
		require.ErrorContains(s, err, `epoch 2 is that of "b"`)

		require.NoError(s, aTerm.Resign(s.Context()))
		_, third := a.lead()
		require.Equal(s, int64(3), third.Number())
		_, err = second.Commit(s.Context(), set("b again"))
		s.requireStale(err, 2, 3)
		require.NoError(s, bTerm.Err())
	})
}

func TestNodeWrittenByHandEndsTheEpochAndTheCountGoesOnFromIt(t *testing.T) {
	bubble(t, func(s *stage) {
		a := s.candidate("a")
		term, e := a.lead()
		same, _, err := s.ensemble.Get(path)
		require.NoError(s, err)

		require.NoError(s, s.ensemble.Set(path, same))
		_, err = e.Commit(s.Context(), set("late"))
		s.requireStale(err, 1, 1)
		require.ErrorContains(s, err, "written to by hand")

		require.NoError(s, s.ensemble.Set(path, []byte(`{"format":1,"epoch":41}`)))
		_, err = e.Commit(s.Context(), set("late"))
		s.requireStale(err, 1, 41)
		require.ErrorContains(s, err, "epoch 41 was written by hand")
		require.NoError(s, term.Resign(s.Context()))
		_, err = e.Commit(s.Context(), set("late"))
		s.requireStale(err, 1, 41)
		require.ErrorIs(s, err, recipes.ErrLost)
		s.requireState("none")

		term, e = a.lead()
		require.Equal(s, int64(42), e.Number())

		require.NoError(s, s.ensemble.Set(path, []byte("words")))
		_, err = e.Commit(s.Context(), set("late"))
		require.ErrorIs(s, err, fencing.ErrStale)
		require.ErrorContains(s, err, `epoch 42`)
		require.ErrorContains(s, err, `what is not an epoch: "words"`)
		require.NoError(s, s.ensemble.Set(path, nil))
		_, err = e.Commit(s.Context(), set("late"))
		require.ErrorIs(s, err, fencing.ErrStale)
		require.ErrorContains(s, err, "was emptied")
		require.NoError(s, term.Err())
		s.requireState("none")
	})
}

// The new epoch 1 has the number and the version of the old one, whose leader is told apart by its own node.
func TestNodeDeletedByHandEndsTheEpochAndTheCountBeginsAnew(t *testing.T) {
	bubble(t, func(s *stage) {
		a, b := s.candidate("a"), s.candidate("b")
		_, old := a.lead()
		require.NoError(s, s.ensemble.Delete(path))
		_, err := old.Commit(s.Context(), set("late"))
		require.ErrorIs(s, err, fencing.ErrStale)
		require.ErrorContains(s, err, "epoch 1 of "+path)
		require.ErrorContains(s, err, "its node was deleted")

		a.link.Hold(zktest.Both)
		_, e := b.lead()
		require.Equal(s, int64(1), e.Number())
		_, err = e.Commit(s.Context(), set("b"))
		require.NoError(s, err)
		a.link.Release()
		_, err = old.Commit(s.Context(), set("late"))
		s.requireStale(err, 1, 1)
		stale := s.stale(err)
		require.ErrorIs(s, err, recipes.ErrLost)
		require.Less(s, stale.Token, stale.Newest.Token)
		s.requireState("b")
	})
}

// The versions of a node that is made again begin anew: one of them is that which the leader checks.
func TestNodeMadeAgainByHandMayPassForTheOldOneUntilTheTermEnds(t *testing.T) {
	bubble(t, func(s *stage) {
		a := s.candidate("a")
		term, e := a.lead()
		require.NoError(s, s.ensemble.Delete(path))
		require.NoError(s, s.ensemble.Create(path, []byte(`{"format":1,"epoch":41}`)))
		_, err := e.Commit(s.Context(), set("a"))
		require.NoError(s, err, "what the documentation warns of")

		require.NoError(s, s.ensemble.Set(path, []byte(`{"format":1,"epoch":41}`)))
		_, err = e.Commit(s.Context(), set("late"))
		s.requireStale(err, 1, 41)
		require.NoError(s, term.Resign(s.Context()))
		_, next := a.lead()
		require.Equal(s, int64(42), next.Number())
		_, err = e.Commit(s.Context(), set("late"))
		s.requireStale(err, 1, 42)
		s.requireState("a")
	})
}

// It may have been claimed, and then the operator has put an end to it.
func TestTermThatMayHaveHadAnEpochClaimsNoOtherAfterOneByHand(t *testing.T) {
	bubble(t, func(s *stage) {
		a := s.candidate("a")
		term, _ := a.claimUnanswered()
		require.NoError(s, s.ensemble.Set(path, []byte(`{"format":1,"epoch":2}`)))
		_, err := a.epochs.Claim(s.Context(), term.Claim)
		require.ErrorIs(s, err, fencing.ErrStale)
		require.ErrorContains(s, err, "epoch 2 was written by hand")
		require.NoError(s, term.Resign(s.Context()))
		_, e := a.lead()
		require.Equal(s, int64(3), e.Number())
	})
}
