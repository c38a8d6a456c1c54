// SPDX-License-Identifier: Apache-2.0

package epoch_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestStaleWriteFailsAsAWholeAndNamesBothEpochs(t *testing.T) {
	bubble(t, func(s servers) {
		a, b := s.candidate("a"), s.candidate("b")
		_, first := a.lead()
		_, err := first.Commit(s.Context(), set("a"))
		require.NoError(s, err)

		a.link.Hold(zktest.Both)
		term, second := b.lead()
		_, err = second.Commit(s.Context(), set("b"))
		require.NoError(s, err)
		a.link.Release()

		_, err = first.Commit(s.Context(), create("/stale"), set("stale write"))
		s.requireStale(err, 1, 2)
		stale := s.stale(err)
		require.ErrorIs(s, err, fencing.ErrStale)
		require.ErrorIs(s, err, recipes.ErrLost)
		require.ErrorContains(s, err, `belongs to "b"`)
		require.Equal(s, term.Token(), stale.Newest.Token)
		require.Less(s, stale.Token, stale.Newest.Token)
		s.requireState("b")
		_, _, err = s.Get("/stale")
		require.ErrorIs(s, err, zktest.ErrNoNode)
	})
}

func TestWriteAfterLossWithoutSuccessorIsNotStale(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.candidate("a")
		term, e := a.lead()
		require.NoError(s, term.Resign(s.Context()))
		_, err := e.Commit(s.Context(), set("stale write"))
		require.ErrorIs(s, err, recipes.ErrLost)
		require.ErrorIs(s, err, recipes.ErrReleased)
		require.NotErrorIs(s, err, fencing.ErrStale)
		require.ErrorContains(s, err, "epoch 1")
		s.requireState("none")

		began := time.Now()
		a.link.Hold(zktest.Both)
		_, err = e.Commit(s.Context(), set("stale write"))
		require.ErrorIs(s, err, recipes.ErrLost)
		require.LessOrEqual(s, time.Since(began), timeout/8, "the read of the successor is bounded")
		a.link.Release()
	})
}

func TestCommitWhoseReplyIsLostIsUncertain(t *testing.T) {
	for _, landed := range []bool{false, true} {
		bubble(t, func(s servers) {
			a := s.candidate("a")
			_, e := a.lead()
			time.Sleep(steady)
			want, lose := "none", a.link.LoseRequest
			if landed {
				want, lose = "a", a.link.LoseReply
			}
			trap := lose(1)
			_, err := e.Commit(s.Context(), set("a"))
			require.True(s, trap.Sprung())
			require.ErrorIs(s, err, recipes.ErrUncertain)
			require.NotErrorIs(s, err, fencing.ErrStale)
			require.ErrorContains(s, err, "commit in epoch 1")
			s.requireState(want)
			_, err = e.Commit(s.Context(), set("again"))
			require.NoError(s, err)
			s.requireState("again")
		})
	}
}

func TestRefusedOperationIsNamedAndNothingIsWritten(t *testing.T) {
	bubble(t, func(s servers) {
		_, e := s.candidate("a").lead()
		responses, err := e.Commit(s.Context(), set("half"), create(state), create("/new"))
		require.ErrorIs(s, err, zk.ErrNodeExists)
		require.NotErrorIs(s, err, fencing.ErrStale)
		require.Len(s, responses, 3, "one for each operation of the caller")
		require.ErrorIs(s, responses[1].Error, zk.ErrNodeExists)
		s.requireState("none")

		responses, err = e.Commit(s.Context(), set("whole"), create("/new"))
		require.NoError(s, err)
		require.Len(s, responses, 2)
		require.Equal(s, int32(1), responses[0].Stat.Version)
		require.Equal(s, "/new", responses[1].String)
		s.requireState("whole")

		responses, err = e.Commit(s.Context())
		require.NoError(s, err, "without operations it only checks")
		require.Empty(s, responses)
	})
}

func TestOperationsOnEpochNodeAreRefused(t *testing.T) {
	bubble(t, func(s servers) {
		_, e := s.candidate("a").lead()
		for _, op := range []any{
			create(path), &zk.SetDataRequest{Path: path, Version: -1}, &zk.DeleteRequest{Path: path, Version: -1},
			&zk.CheckVersionRequest{Path: path, Version: -1},
		} {
			_, err := e.Commit(s.Context(), set("half"), op)
			require.ErrorContains(s, err, "operation 1 is on the epoch's own node")
			require.ErrorContains(s, err, path)
		}
		for _, invalid := range []any{nil, "words", (*zk.SetDataRequest)(nil), zk.SetDataRequest{Path: path}} {
			_, err := e.Commit(s.Context(), set("half"), invalid)
			require.ErrorContains(s, err, "commit in epoch 1", "%#v", invalid)
			require.NotErrorIs(s, err, recipes.ErrUncertain, "%#v", invalid)
		}
		s.requireState("none")
	})
}
