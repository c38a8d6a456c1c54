// SPDX-License-Identifier: Apache-2.0

package epoch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/epoch"
)

// requireRefusesQueue requires that every first use of the path as an epoch's is refused, and writes nothing.
func (s servers) requireRefusesQueue(a *candidate, term *election.Term, at string) {
	s.Helper()
	before, stat, err := s.Get(at)
	require.NoError(s, err)
	const why, remedy = "queue of a lock or an election", "give the epochs a separate path"
	uses := map[string]func(es *epoch.Epochs) error{
		"Claim":   func(es *epoch.Epochs) error { _, err := es.Claim(s.Context(), term.Claim); return err },
		"Current": func(es *epoch.Epochs) error { _, err := es.Current(s.Context()); return err },
		"Observe": func(es *epoch.Epochs) error {
			for _, err := range es.Observe(s.Context()) {
				return err
			}
			return nil
		},
	}
	for name, use := range uses {
		epochs, err := epoch.New(a.Client, at, nil)
		require.NoError(s, err)
		err = use(epochs)
		require.ErrorContains(s, err, why, name)
		require.ErrorContains(s, err, remedy, name)
		require.ErrorContains(s, err, at, name)
	}
	after, now, err := s.Get(at)
	require.NoError(s, err)
	require.Equal(s, string(before), string(after))
	require.Equal(s, stat.Version, now.Version)
}

func TestPathOfQueueIsRefusedAtFirstUse(t *testing.T) {
	t.Run("own election's", func(t *testing.T) {
		bubble(t, func(s servers) {
			a := s.candidate("a")
			s.requireRefusesQueue(a, a.campaign(), "/election/controller")
		})
	})
	t.Run("another election's", func(t *testing.T) {
		bubble(t, func(s servers) {
			a := s.candidate("a")
			b := s.candidateAt("b", "/election/other")
			b.campaign()
			s.requireRefusesQueue(a, a.campaign(), "/election/other")
		})
	})
	t.Run("empty queue", func(t *testing.T) {
		bubble(t, func(s servers) {
			a := s.candidate("a")
			require.NoError(s, s.Create("/queue", nil))
			b := s.candidateAt("b", "/queue")
			require.NoError(s, b.campaign().Resign(s.Context()))
			s.requireRefusesQueue(a, a.campaign(), "/queue")
		})
	})
	t.Run("another library's", func(t *testing.T) {
		bubble(t, func(s servers) {
			a := s.candidate("a")
			require.NoError(s, s.Create("/queue", []byte("10.0.0.7")))
			require.NoError(s, s.Create("/queue/_c_1-lock-0000000000", nil))
			s.requireRefusesQueue(a, a.campaign(), "/queue")
		})
	})
	t.Run("below a node that holds an epoch", func(t *testing.T) {
		bubble(t, func(s servers) {
			a := s.candidate("a")
			require.NoError(s, s.Create("/queue", []byte(`{"format":1,"epoch":7}`)))
			b := s.candidateAt("b", "/queue")
			b.campaign()
			s.requireRefusesQueue(a, a.campaign(), "/queue")
		})
	})
}

func TestEpochNodeMayHaveChildrenThatAreNotContenders(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.candidate("a")
		require.NoError(s, s.Create("/state/epoch", []byte(`{"format":1,"epoch":7}`)))
		require.NoError(s, s.Create("/state/epoch/assignment", nil))
		epochs, err := epoch.New(a.Client, "/state/epoch", nil)
		require.NoError(s, err)
		e, err := epochs.Claim(s.Context(), a.campaign().Claim)
		require.NoError(s, err)
		require.Equal(s, int64(8), e.Number())
	})
}
