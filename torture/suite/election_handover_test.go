// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Candidates are on all servers, which see the hand-over at different times.
func TestTargetOfHandOverLeadsBeforeCandidatesAheadOfIt(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	term := s.campaign(s.election(s.connect(recipes.Options{}), "election", "leader"))
	const others = 6
	var waiting []*campaigning
	for i := range others {
		id := string(rune('a' + i))
		waiting = append(waiting, s.campaigning(s.ctx, s.election(s.connect(recipes.Options{}), "election", id)))
		s.waiting("election", i+2)
	}
	_, err := term.HandOver(s.ctx, "nobody")
	require.ErrorIs(t, err, election.ErrNotCandidate)
	var h *election.HandOver
	s.eventually("the server of the leader shows the target", func() bool {
		h, err = term.HandOver(s.ctx, "d")
		return err == nil
	})
	s.resign(term)
	leader, err := h.Wait(s.ctx)
	require.NoError(t, err)
	require.Equal(t, "d", leader.ID)
	last := term.Token()
	lead := func(c *campaigning) {
		next := c.won()
		require.Greater(t, next.Token(), last)
		last = next.Token()
		s.resign(next)
	}
	for _, c := range waiting[3:] {
		lead(c)
	}
	for ahead := waiting[:3]; len(ahead) > 0; { // they have joined again, in any order
		var next int
		s.eventually("one of those that stepped back leads", func() bool {
			next = slices.IndexFunc(ahead, (*campaigning).over)
			return next >= 0
		})
		lead(ahead[next])
		ahead = slices.Delete(ahead, next, next+1)
	}
}

func TestDeadCandidateOfHigherPriorityDoesNotBlockUntilItsSessionExpires(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	campaign := func(id string, priority int, servers ...string) *campaigning {
		client := s.connect(recipes.Options{SessionTimeout: 10 * time.Second}, servers...)
		return s.campaigning(s.ctx, s.electionWith(client, "election", election.Options{
			ID: id, Priority: priority, PriorityWait: 300 * time.Millisecond,
		}))
	}
	first := campaign("first", 0).won()
	low := campaign("low", 0)
	s.waiting("election", 2)
	proxy := s.proxy(s.ensemble.Servers()[0])
	dead := campaign("dead", 5, proxy.Addr())
	s.waiting("election", 3)
	alive := campaign("alive", 3)
	s.waiting("election", 4)

	proxy.Drop(docker.Both)
	s.resign(first)
	won := low.won()
	require.Len(t, s.nodes("election"), 3, "the session of the dead candidate has not expired")
	s.resign(won)
	s.resign(alive.won())
	proxy.Heal()
	s.resign(dead.won())
}
