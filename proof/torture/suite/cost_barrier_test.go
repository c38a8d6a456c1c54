// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/barrier"
)

// barrierCosts returns what a barrier costs for which the other clients wait.
func barrierCosts(s *costs) map[string]float64 {
	s.T.Helper()
	of := func(c *costClient) *barrier.Barrier {
		b, err := barrier.New(c.Client, s.Path("barrier"), nil)
		require.NoError(s.T, err)
		return b
	}
	owner, others := of(s.clients[0]), s.clients[1:]
	require.NoError(s.T, owner.Set(s.Ctx)) // the path is known from here on
	require.NoError(s.T, owner.Remove(s.Ctx))
	result := map[string]float64{
		"`Barrier`: set": s.cost(1, func() { require.NoError(s.T, owner.Set(s.Ctx)) }),
	}
	var waiting sync.WaitGroup
	before := s.settled(others...)
	for _, c := range others {
		b := of(c)
		waiting.Go(func() {
			if err := b.Wait(s.Ctx); err != nil {
				s.T.Error(err)
			}
		})
	}
	between := s.settled(others...)
	remover := s.settled(s.clients[0])
	require.NoError(s.T, owner.Remove(s.Ctx))
	waiting.Wait()
	result["`Barrier`: remove"] = float64(s.settled(s.clients[0]) - remover)
	if n := float64(len(others)); n > 0 {
		result["`Barrier`: to wait, for each waiter"] = float64(between-before) / n
		result["`Barrier`: the removal, for each waiter"] = float64(s.settled(others...)-between) / n
	}
	return result
}

// doubleCosts returns what a member of a double barrier sends in one round: to enter and to leave. One
// client is the member if there are no others.
func doubleCosts(s *costs) map[string]float64 {
	s.T.Helper()
	members := s.clients[min(1, len(s.clients)-1):]
	doubles := make([]*barrier.Double, len(members))
	for i, c := range members {
		var err error
		doubles[i], err = barrier.NewDouble(c.Client, s.Path("double"), len(members), nil)
		require.NoError(s.T, err)
	}
	rounds := make([]*barrier.Round, len(members))
	enter := func(i int) (err error) {
		rounds[i], err = doubles[i].Enter(s.Ctx)
		return err
	}
	leave := func(i int) error { return rounds[i].Leave(s.Ctx) }
	s.inTurn(members, enter)
	s.inTurn(members, leave) // the path is known from here on
	return map[string]float64{
		"`Double`: enter, for each member": s.cost(len(members), func() { s.inTurn(members, enter) }),
		"`Double`: leave, for each member": s.cost(len(members), func() { s.inTurn(members, leave) }),
	}
}

// inTurn calls step for the first member, for all others but one when it waits, and for the last one when all of these wait.
func (s *costs) inTurn(members []*costClient, step func(i int) error) {
	s.T.Helper()
	var running sync.WaitGroup
	for i := range members {
		if i == 1 || i == len(members)-1 {
			s.settled(members...)
		}
		running.Go(func() {
			if err := step(i); err != nil {
				s.T.Error(err)
			}
		})
	}
	running.Wait()
}
