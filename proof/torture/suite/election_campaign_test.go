// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestUnansweredResignContinuesInTheBackground(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	proxy := s.proxy(s.ensemble.Servers()[0])
	client := s.Connect(recipes.Options{}, proxy.Addr())
	e := s.ElectionWith(client, "election", election.Options{ReleaseTimeout: 200 * time.Millisecond})
	term := s.Campaign(e)
	next := s.Campaigning(s.Ctx, s.Election(s.Connect(recipes.Options{}), "election", "next"))
	s.Waiting("election", 2)

	proxy.Drop(docker.Both)
	err := term.Resign(s.Ctx)
	require.ErrorIs(t, err, recipes.ErrUncertain)
	require.NotErrorIs(t, err, recipes.ErrLost)
	require.ErrorIs(t, term.Err(), recipes.ErrReleased, "the term has ended nevertheless")
	proxy.Heal()
	s.Resign(next.Won())
	s.Eventually("no outstanding node", func() bool { return client.OutstandingNodes() == 0 })
	require.ErrorIs(t, term.Resign(s.Ctx), recipes.ErrUncertain, "the first result again")
}
