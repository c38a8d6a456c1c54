// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/barrier"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestBarrierHoldsBackProcessAtAnotherServerAcrossSessions(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	servers := s.ensemble.Addrs()
	waiter := s.Connect(recipes.Options{}, servers[1])
	first, err := barrier.New(s.Connect(recipes.Options{}, servers[0]), s.Path("barrier"), nil)
	require.NoError(t, err)
	second, err := barrier.New(waiter, s.Path("barrier"), nil)
	require.NoError(t, err)
	require.NoError(t, first.Set(s.Ctx))
	waiting := make(chan error, 1)
	go func() { waiting <- second.Wait(s.Ctx) }()
	require.NoError(t, s.ensemble.Expire(s.Ctx, waiter.SessionID()))
	soon, cancel := context.WithTimeout(s.Ctx, time.Second)
	defer cancel()
	require.ErrorIs(t, second.Wait(soon), context.DeadlineExceeded)
	select {
	case err := <-waiting:
		require.Fail(t, "a process has passed a barrier that is set", "%v", err)
	default:
	}
	require.NoError(t, first.Remove(s.Ctx))
	require.NoError(t, <-waiting)
}

func TestMembersAtThreeServersEnterAndLeaveTogether(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	const rounds = 5
	var arrived, finished [rounds]atomic.Int32
	ended := make(chan error, 3)
	for _, server := range s.ensemble.Addrs() {
		double, err := barrier.NewDouble(s.Connect(recipes.Options{}, server), s.Path("double"), 3, nil)
		require.NoError(t, err)
		go func() {
			for n := range rounds {
				arrived[n].Add(1)
				round, err := double.Enter(s.Ctx)
				if err != nil {
					ended <- err
					return
				}
				if arrived[n].Load() != 3 {
					t.Errorf("round %d was entered when %d had arrived", n, arrived[n].Load())
				}
				finished[n].Add(1)
				if err := round.Leave(s.Ctx); err != nil {
					ended <- err
					return
				}
				if finished[n].Load() != 3 {
					t.Errorf("round %d was left when %d had finished", n, finished[n].Load())
				}
			}
			ended <- nil
		}()
	}
	for range 3 {
		require.NoError(t, <-ended)
	}
}
