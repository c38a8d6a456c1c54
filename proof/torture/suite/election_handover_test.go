// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/internal/recipetest"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Candidates are on all servers, which see the hand-over at different times.
func TestTargetOfHandOverLeadsBeforeCandidatesAheadOfIt(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	term := s.Campaign(s.Election(s.Connect(recipes.Options{}), "election", "leader"))
	const others = 6
	var waiting []*recipetest.Campaigning
	for i := range others {
		id := string(rune('a' + i))
		waiting = append(waiting, s.Campaigning(s.Ctx, s.Election(s.Connect(recipes.Options{}), "election", id)))
		s.Waiting("election", i+2)
	}
	_, err := term.HandOver(s.Ctx, "nobody")
	require.ErrorIs(t, err, election.ErrNotCandidate)
	var h *election.HandOver
	s.Eventually("the server of the leader shows the target", func() bool {
		h, err = term.HandOver(s.Ctx, "d")
		return err == nil
	})
	s.Resign(term)
	leader, err := h.Wait(s.Ctx)
	require.NoError(t, err)
	require.Equal(t, "d", leader.Owner)
	last := term.Token()
	lead := func(c *recipetest.Campaigning) {
		next := c.Won()
		require.Greater(t, next.Token(), last)
		last = next.Token()
		s.Resign(next)
	}
	for _, c := range waiting[3:] {
		lead(c)
	}
	for ahead := waiting[:3]; len(ahead) > 0; { // they have joined again, in any order
		var next int
		s.Eventually("one of those that yielded leads", func() bool {
			next = slices.IndexFunc(ahead, (*recipetest.Campaigning).Over)
			return next >= 0
		})
		lead(ahead[next])
		ahead = slices.Delete(ahead, next, next+1)
	}
}

func TestDeadCandidateOfHigherPriorityDoesNotBlockUntilItsSessionExpires(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	campaign := func(id string, priority int, servers ...string) *recipetest.Campaigning {
		client := s.Connect(recipes.Options{SessionTimeout: 10 * time.Second}, servers...)
		return s.Campaigning(s.Ctx, s.ElectionWith(client, "election", election.Options{
			Owner: id, Priority: priority, PriorityWait: 300 * time.Millisecond,
		}))
	}
	first := campaign("first", 0).Won()
	low := campaign("low", 0)
	s.Waiting("election", 2)
	proxy := s.proxy(s.ensemble.Servers()[0])
	dead := campaign("dead", 5, proxy.Addr())
	s.Waiting("election", 3)
	alive := campaign("alive", 3)
	s.Waiting("election", 4)

	proxy.Drop(docker.Both)
	s.Resign(first)
	won := low.Won()
	require.Len(t, s.Nodes("election"), 3, "the session of the dead candidate has not expired")
	s.Resign(won)
	s.Resign(alive.Won())
	proxy.Heal()
	s.Resign(dead.Won())
}
