// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestOnlyLeaderThatIsNotDrainingIsReady(t *testing.T) {
	bubble(t, func(s servers) {
		a, b := s.candidate(election.Options{}), s.candidate(election.Options{})
		require.ErrorIs(s, a.Ready(), election.ErrNotLeading)
		require.EqualError(s, a.Ready(), "ready "+path+": not leading")
		term := s.lead(a)
		require.NoError(s, a.Ready())
		require.ErrorIs(s, b.Ready(), election.ErrNotLeading)
		require.NoError(s, term.Drain(s.Context()))
		require.ErrorIs(s, a.Ready(), election.ErrDraining)
		require.NoError(s, term.Resign(s.Context()))
		require.ErrorIs(s, a.Ready(), election.ErrNotLeading)
		next := s.lead(b)
		require.NoError(s, b.Ready())
		require.NoError(s, next.Resign(s.Context()))
		term = s.lead(a)
		require.NoError(s, a.Ready(), "the drain belonged to the former term")
		require.NoError(s, term.Resign(s.Context()))
	})
}

func TestPartitionedLeaderIsNotReady(t *testing.T) {
	bubble(t, func(s servers) {
		c := s.candidate(election.Options{})
		s.lead(c)
		c.link.Refuse(true)
		c.link.Reset()
		time.Sleep(timeout * 3 / 8)
		require.ErrorContains(s, c.Ready(), "no server has served the session", "the term may still last")
		time.Sleep(timeout)
		require.Error(s, c.Ready())
		c.link.Refuse(false)
		time.Sleep(timeout)
		require.ErrorIs(s, c.Ready(), election.ErrNotLeading)
		c.client.Close()
		require.ErrorIs(s, c.Ready(), recipes.ErrClosed)
	})
}
