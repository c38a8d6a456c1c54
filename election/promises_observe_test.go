// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/recipetest"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestObserverSeesEveryHandOver(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	client := s.Connect(recipes.Options{})
	const terms = 8
	var campaigns []*recipetest.Campaigning
	for i := range terms {
		campaigns = append(campaigns, s.Campaigning(s.Ctx, s.Election(client, "election", fmt.Sprint(i))))
		s.Waiting("election", i+1)
	}
	seen := 0
	for leader, err := range s.Election(s.Connect(recipes.Options{}), "election", "").Observe(s.Ctx) {
		require.NoError(t, err)
		term := campaigns[seen].Won()
		require.Equal(t, term.Owner(), leader.Owner)
		require.Equal(t, term.Token(), leader.Token)
		if seen++; seen == terms {
			s.Resign(term)
			break
		}
		s.Resign(term)
	}
	require.Equal(t, terms, seen)
}

func TestSlowObserverSkipsToTheNewest(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	e := s.Election(s.Connect(recipes.Options{}), "election", "")
	term := s.Campaign(e)
	seen := 0
	for leader, err := range s.Election(s.Connect(recipes.Options{}), "election", "").Observe(s.Ctx) {
		require.NoError(t, err)
		require.Equal(t, term.Token(), leader.Token)
		if seen++; seen == 3 {
			break
		}
		for range 5 {
			s.Resign(term)
			term = s.Campaign(e)
		}
	}
	s.Resign(term)
}

// A time without a leader is neither a leader nor the end of the observation.
func TestObserverSeesTheLeaderAfterATimeWithoutOne(t *testing.T) {
	t.Parallel()
	s := recipetest.New(t)
	e := s.Election(s.Connect(recipes.Options{}), "election", "")
	observer := s.Observing(s.Election(s.Connect(recipes.Options{}), "election", ""))
	for range 3 {
		term := s.Campaign(e)
		observer.Sees(term)
		s.Resign(term)
	}
	observer.Stop()
	require.ErrorIs(t, observer.End(), context.Canceled, "without an element in between")
}
