// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestAwaitReturnsWithTheTransactionThatQueuesTheContender(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{})
		client, err := recipes.Connect(t.Context(), e.Addrs(), &recipes.Options{Dial: e.Dial})
		require.NoError(t, err)
		defer client.Close()
		mu, err := lock.New(client, "/locks/a", nil)
		require.NoError(t, err)
		require.NoError(t, e.Await(t.Context(), "/locks/a", 0), "of a missing node")

		hold, err := mu.Lock(t.Context())
		require.NoError(t, err)
		began := time.Now()
		waiter := make(chan error, 1)
		time.AfterFunc(time.Second, func() {
			waiter <- mu.Do(t.Context(), func(context.Context, *lock.Hold) error { return nil })
		})
		require.NoError(t, e.Await(t.Context(), "/locks/a", 2))
		require.Equal(t, time.Second, time.Since(began))
		require.NoError(t, hold.Unlock(t.Context()))
		require.NoError(t, <-waiter)
		require.NoError(t, e.Await(t.Context(), "/locks/a", 0))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = e.Await(ctx, "/locks/a", 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "zktest: wait for 1 contenders at /locks/a")
	})
}

// Each transaction wakes Await, so that a cost that grows with the children would be quadratic in
// the number of contenders that join.
func TestAwaitAllocatesTheSameForAnyNumberOfContenders(t *testing.T) {
	e := inMemory(t, zktest.Options{})
	allocations := func(n int) float64 {
		path := fmt.Sprint("/locks/", n)
		for i := range n {
			require.NoError(t, e.Create(fmt.Sprint(path, "/", i), nil))
		}
		return testing.AllocsPerRun(100, func() {
			if err := e.Await(t.Context(), path, n); err != nil {
				t.Error(err)
			}
		})
	}
	require.InDelta(t, allocations(300), allocations(3000), 1)
}
