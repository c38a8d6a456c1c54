// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
)

// takeAll takes turns for callers of that role until none is free.
func takeAll(t *testing.T, s *turns, as Role) (taken []Turn) {
	t.Helper()
	ended, end := context.WithCancel(t.Context())
	end()
	for {
		mine, ok := s.take(as, t.Context(), ended)
		if !ok {
			return taken
		}
		taken = append(taken, mine)
	}
}

func TestTurnsAreReservedForContendersAndForHolders(t *testing.T) {
	var s turns
	joins := takeAll(t, &s, Joining)
	require.Len(t, joins, MaxInFlight-forHolders-forContenders)
	others := takeAll(t, &s, Ordinary)
	require.Len(t, others, forContenders)
	require.Len(t, takeAll(t, &s, Holder), forHolders)
	require.Empty(t, takeAll(t, &s, Holder))
	others[0].End()
	require.Empty(t, takeAll(t, &s, Joining))
	require.Len(t, takeAll(t, &s, Ordinary), 1)
	joins[0].End()
	require.Len(t, takeAll(t, &s, Holder), 1, "holders may take all turns")
}

func TestGroupOfJoinsLeavesTheReservedTurnsFree(t *testing.T) {
	var s turns
	joins := takeAll(t, &s, Joining)
	for range maxGrouped - 1 {
		joins[0].Add(Joining)
	}
	others := takeAll(t, &s, Ordinary)
	require.Len(t, others, forContenders)
	holders := takeAll(t, &s, Holder)
	require.Len(t, holders, forHolders)
	for _, taken := range [][]Turn{joins, others, holders} {
		for _, mine := range taken {
			mine.End()
		}
	}
	require.Zero(t, s.inFlight)
	require.Len(t, takeAll(t, &s, Holder), MaxInFlight)
}

func TestTurnGoesToHoldersFirstAndToJoinsLastExceptForTheirShare(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var s turns
		taken := takeAll(t, &s, Joining)
		taken = append(taken, takeAll(t, &s, Ordinary)...)
		taken = append(taken, takeAll(t, &s, Holder)...)
		const callers = 20
		given := make(chan Role, 3*callers)
		for _, as := range []Role{Joining, Ordinary, Holder} {
			for range callers {
				go func() {
					if mine, ok := s.take(as, t.Context(), t.Context()); ok {
						given <- as
						_ = mine // which the caller keeps
					}
				}()
			}
		}
		synctest.Wait()
		var order []Role
		for _, mine := range taken[:3*callers] {
			mine.End()
			synctest.Wait()
			for len(given) > 0 {
				order = append(order, <-given)
			}
		}
		const h, o, j = Holder, Ordinary, Joining
		require.Equal(t, []Role{h, h, h, h, h, h, h, j, h, h, h, h, h, h, h, o, h}, order[:2*fairShare+1])
	})
}

func TestCallerThatGivesUpLeavesItsTurnToTheNext(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var s turns
		taken := takeAll(t, &s, Joining)
		brief, giveUp := context.WithCancel(t.Context())
		next := make(chan bool, 2)
		go func() { _, ok := s.take(Joining, t.Context(), brief); next <- ok }()
		synctest.Wait()
		go func() { _, ok := s.take(Joining, t.Context(), t.Context()); next <- ok }()
		synctest.Wait()
		giveUp()
		require.False(t, <-next)
		taken[0].End()
		require.True(t, <-next)
		require.Len(t, takeAll(t, &s, Ordinary), forContenders)
		require.Zero(t, s.waiting[Joining].Len())
	})
}
