// SPDX-License-Identifier: Apache-2.0

package limit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/service/internal/limit"
)

func TestRateIsPerPrincipal(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		l, limits := limit.New(), limit.Limits{Rate: 2, Burst: 3}
		for range 3 {
			require.Zero(t, l.Allow("a", limits, limit.Any, 9))
		}
		wait := l.Allow("a", limits, limit.Any, 9)
		require.Equal(t, 500*time.Millisecond, wait)
		require.Equal(t, wait, l.Allow("a", limits, limit.Any, 9), "a refused request takes no place")
		require.Zero(t, l.Allow("b", limits, limit.Any, 9))
		time.Sleep(wait)
		require.Zero(t, l.Allow("a", limits, limit.Any, 9))
		require.NotZero(t, l.Allow("a", limits, limit.Any, 9))
	})
}

func TestChangedLimitsApplyToNextRequest(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		l := limit.New()
		require.Zero(t, l.Allow("a", limit.Limits{Rate: 1, Burst: 1}, limit.Any, 0))
		require.NotZero(t, l.Allow("a", limit.Limits{Rate: 1, Burst: 1}, limit.Any, 0))
		time.Sleep(time.Second)
		require.NotZero(t, l.Allow("a", limit.Limits{Rate: 1, Burst: 0}, limit.Any, 0), "a burst of 0 admits nothing")
	})
}

func TestWaitersAreCountedUntilTheyLeave(t *testing.T) {
	l, limits := limit.New(), limit.Limits{Waiters: 2}
	leave, ok := l.Wait("a", limits)
	require.True(t, ok)
	_, ok = l.Wait("a", limits)
	require.True(t, ok)
	_, ok = l.Wait("a", limits)
	require.False(t, ok)
	_, ok = l.Wait("b", limits)
	require.True(t, ok)
	require.Equal(t, 3, l.Waiters())
	leave()
	leave()
	require.Equal(t, 2, l.Waiters(), "a waiter leaves once")
	_, ok = l.Wait("a", limits)
	require.True(t, ok)
	for i := range 10_000 - 3 {
		_, ok = l.Wait(fmt.Sprint(i), limits)
		require.True(t, ok)
	}
	_, ok = l.Wait("b", limits)
	require.False(t, ok, "the replica has as many as it may")
}

func TestRequestsThatKeepLeasesHaveTheirOwnBudgetSizedByTheLeases(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		l, limits := limit.New(), limit.Limits{Rate: 2, Burst: 3}
		for l.Allow("a", limits, limit.Any, 10) == 0 { // a program in a loop
		}
		for range 3 + 4*10 {
			require.Zero(t, l.Allow("a", limits, limit.Keeping, 10))
		}
		require.NotZero(t, l.Allow("a", limits, limit.Keeping, 10), "but it is a budget")
		require.Zero(t, l.Allow("a", limits, limit.Looking, 10))
		time.Sleep(time.Second)
		for range 2 + 4*10 {
			require.Zero(t, l.Allow("a", limits, limit.Keeping, 10))
		}
		require.NotZero(t, l.Allow("a", limits, limit.Keeping, 10))
	})
}

func TestAnswersAreCountedUntilTheyAreWritten(t *testing.T) {
	l := limit.New()
	first, ok := l.Answer("a", limit.Any, 10<<20)
	require.True(t, ok)
	_, ok = l.Answer("a", limit.Any, 7<<20)
	require.False(t, ok)
	second, ok := l.Answer("a", limit.Any, 6<<20)
	require.True(t, ok)
	_, ok = l.Answer("a", limit.Looking, 16<<20)
	require.True(t, ok)
	_, ok = l.Answer("b", limit.Any, 16<<20)
	require.True(t, ok)
	first()
	first()
	_, ok = l.Answer("a", limit.Any, 11<<20)
	require.False(t, ok, "an answer is written once")
	second()
	_, ok = l.Answer("a", limit.Any, 100<<20)
	require.True(t, ok, "the only answer may have any size")
}
