// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
)

// electionCosts returns what a leader sends that publishes a value, and what the other clients send as
// observers.
func electionCosts(s *costs) map[string]float64 {
	s.T.Helper()
	term := s.Campaign(s.Election(s.clients[0].Client, "observed", "leader"))
	require.NoError(s.T, term.Proclaim(s.Ctx, "first")) // the path is known from here on
	leader, others := s.clients[0], s.clients[1:]
	ctx, stop := context.WithCancel(s.Ctx)
	shown := make(chan string)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for _, c := range others {
		e := s.Election(c.Client, "observed", "observer")
		running.Go(func() {
			for l, err := range e.Observe(ctx) {
				if err != nil {
					return
				}
				select {
				case shown <- l.Value:
				case <-ctx.Done():
				}
			}
		})
	}
	allShow := func(value string) {
		for range others {
			for await(s.env, shown) != value {
			}
		}
	}
	allShow("first")
	before, observers := s.settled(leader), s.settled(others...)
	require.NoError(s.T, term.Proclaim(s.Ctx, "second"))
	allShow("second")
	result := map[string]float64{"`Election`: `Proclaim`, for the leader": float64(s.settled(leader) - before)}
	if len(others) > 0 {
		result["`Election`: `Proclaim`, for each observer"] = float64(s.settled(others...)-observers) / float64(len(others))
	}
	stop()
	running.Wait()
	s.Resign(term)
	return result
}

// passingCosts returns what a hand-over to the last candidate costs for each of those ahead of it, and
// the same for a candidate of a higher priority than they have.
func passingCosts(s *costs) map[string]float64 {
	s.T.Helper()
	if len(s.clients) == 1 {
		return nil
	}
	handOver := s.passing("handed-over", 0, func(term *election.Term) {
		_, err := term.HandOver(s.Ctx, "last")
		require.NoError(s.T, err)
	})
	priority := s.passing("by-priority", 1, func(*election.Term) {})
	return map[string]float64{
		"`Election`: a hand-over, for each candidate passed":                      handOver,
		"`Election`: a candidate of a higher priority, for each candidate passed": priority,
	}
}

// passing returns what a hand-off to the last candidate costs per candidate. The last one has the
// priority, and the others none.
func (s *costs) passing(name string, priority int, prepare func(*election.Term)) float64 {
	s.T.Helper()
	campaign := func(c *costClient, opts election.Options) *election.Election {
		e := s.ElectionWith(c.Client, name, opts)
		s.Resign(s.Campaign(e)) // the path is known from here on
		return e
	}
	var elections []*election.Election
	others := s.clients[1:]
	for i, c := range others {
		opts := election.Options{Owner: fmt.Sprint("candidate-", i), PriorityWait: quietTimeout}
		if i == len(others)-1 {
			opts.Owner, opts.Priority = "last", priority
		}
		elections = append(elections, campaign(c, opts))
	}
	first := s.Campaign(campaign(s.clients[0], election.Options{Owner: "first"}))
	ctx, stop := context.WithCancel(s.Ctx)
	won := make(chan *election.Term, len(others))
	var running sync.WaitGroup
	for i, e := range elections {
		running.Go(func() {
			if term, err := e.Campaign(ctx); err == nil { // otherwise the test has ended it
				won <- term
			}
		})
		s.Waiting(name, 2+i)
	}
	defer running.Wait()
	defer stop()
	requests := s.cost(len(others), func() {
		prepare(first)
		s.Resign(first)
		first = await(s.env, won)
	})
	require.Equal(s.T, "last", first.Owner())
	stop() // none of the others is to lead
	running.Wait()
	s.Resign(first)
	return requests
}
