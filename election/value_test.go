// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// follow returns what an observer with its own client sees.
func (s servers) follow() <-chan election.Leader {
	s.Helper()
	o := s.candidate(election.Options{})
	seen := make(chan election.Leader, 100)
	go func() {
		for leader, err := range o.Observe(s.Context()) {
			if err == nil {
				seen <- leader
			}
		}
	}()
	return seen
}

func (s servers) lead(c *candidate) *election.Term {
	s.Helper()
	term, err := c.Campaign(s.Context())
	require.NoError(s, err)
	return term
}

func TestObserverSeesEachValueOfLeaderAndNoneOfFormerOne(t *testing.T) {
	bubble(t, func(s servers) {
		seen := s.follow()
		first, second := s.candidate(election.Options{Owner: "first"}), s.candidate(election.Options{Owner: "second"})
		next := func() election.Leader {
			l := <-seen
			now, err := second.Leader(s.Context())
			require.NoError(s, err)
			require.Equal(s, now, l)
			return election.Leader{Owner: l.Owner, Value: l.Value, Draining: l.Draining}
		}
		term := s.lead(first)
		require.Equal(s, election.Leader{Owner: "first"}, next())
		require.NoError(s, term.Proclaim(s.Context(), "10.0.0.1:80"))
		require.Equal(s, election.Leader{Owner: "first", Value: "10.0.0.1:80"}, next())
		require.NoError(s, term.Proclaim(s.Context(), "10.0.0.1:81"))
		require.Equal(s, election.Leader{Owner: "first", Value: "10.0.0.1:81"}, next())
		require.NoError(s, term.Drain(s.Context()))
		require.Equal(s, election.Leader{Owner: "first", Value: "10.0.0.1:81", Draining: true}, next())
		require.NoError(s, term.Proclaim(s.Context(), ""))
		require.Equal(s, election.Leader{Owner: "first", Draining: true}, next())
		require.NoError(s, term.Resign(s.Context()))
		later := s.lead(second)
		require.Equal(s, election.Leader{Owner: "second"}, next())
		require.NoError(s, later.Proclaim(s.Context(), "10.0.0.2:80"))
		require.Equal(s, election.Leader{Owner: "second", Value: "10.0.0.2:80"}, next())
		require.ErrorIs(s, term.Proclaim(s.Context(), "x"), recipes.ErrReleased)
		require.NoError(s, later.Resign(s.Context()))
	})
}

// An operator has deleted the node of the leader, which has not been notified yet.
func TestProclamationOfFormerLeaderIsRejected(t *testing.T) {
	bubble(t, func(s servers) {
		term := s.lead(s.candidate(election.Options{Owner: "old"}))
		require.NoError(s, term.Proclaim(s.Context(), "old"))
		c := s.candidate(election.Options{Owner: "new"})
		require.NoError(s, s.Delete(term.Path()))
		later := s.lead(c)
		require.NoError(s, later.Proclaim(s.Context(), "new"))
		select {
		case <-term.Done():
			s.Fatal("the former leader has been notified: nothing is tested")
		default:
		}
		require.ErrorIs(s, term.Proclaim(s.Context(), "stale"), recipes.ErrLost)
		leader, err := c.Leader(s.Context())
		require.NoError(s, err)
		require.Equal(s, "new", leader.Value)
		require.NoError(s, later.Resign(s.Context()))
	})
}

// A cut at each frame of a proclamation leaves the value before or after it, and the next call
// succeeds.
func TestProclamationCutAtAnyFrameIsDoneOrNotDone(t *testing.T) {
	for _, cut := range []func(*zktest.Link, int) *zktest.Trap{(*zktest.Link).LoseRequest, (*zktest.Link).LoseReply} {
		for n := 1; n <= 3; n++ {
			bubble(t, func(s servers) {
				c := s.candidate(election.Options{})
				term := s.lead(c)
				require.NoError(s, term.Proclaim(s.Context(), "before"))
				trap := cut(c.link, n)
				ctx, cancel := context.WithTimeout(s.Context(), timeout/4)
				defer cancel()
				require.NoError(s, term.Proclaim(ctx, "after"), "it is repeated")
				require.True(s, trap.Sprung() || n == 3, "the read and the write")
				leader, err := s.candidate(election.Options{}).Leader(s.Context())
				require.NoError(s, err)
				require.Equal(s, "after", leader.Value)
				require.NoError(s, term.Resign(s.Context()))
			})
		}
	}
}

func TestInvalidValueIsNotPublished(t *testing.T) {
	bubble(t, func(s servers) {
		c := s.candidate(election.Options{})
		term := s.lead(c)
		require.ErrorContains(s, term.Proclaim(s.Context(), strings.Repeat("x", election.MaxValue+1)),
			"proclaim "+path+"-value: value of 4097 bytes is over the limit of 4096")
		require.ErrorContains(s, term.Proclaim(s.Context(), "\xff"), "not valid UTF-8")
		require.NoError(s, term.Proclaim(s.Context(), strings.Repeat("x", election.MaxValue)))
		require.NoError(s, term.Resign(s.Context()))
	})
}

func TestValueIsNotWrittenOverDataOfAnotherProgram(t *testing.T) {
	bubble(t, func(s servers) {
		require.NoError(s, s.Create(path+"-value", []byte("10 replicas")))
		c := s.candidate(election.Options{Owner: "a"})
		term := s.lead(c)
		require.ErrorContains(s, term.Proclaim(s.Context(), "x"), "the node's data is not the value of an election")
		leader, err := c.Leader(s.Context())
		require.NoError(s, err)
		require.Equal(s, "a", leader.Owner)
		require.Empty(s, leader.Value)
		require.NoError(s, term.Resign(s.Context()))
	})
}
