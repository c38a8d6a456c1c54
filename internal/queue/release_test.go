// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestReleaseWhoseReplyIsLostHasReleased(t *testing.T) {
	for _, v := range []zktest.Direction{zktest.ToClient, zktest.ToServer} {
		faketime.Test(t, func(t *testing.T) {
			s := newEnsemble(t)
			client := s.connect(s.options())
			claim := claimed(t, client)
			s.Intercept(zktest.Rule{Op: "delete", Times: 1, Lose: v})
			queue := newQueue(t, client, nil)
			require.NoError(t, queue.Release(t.Context(), claim))
			require.ErrorIs(t, claim.Err(), recipes.ErrReleased)
			require.Empty(t, s.queue())
			require.Zero(t, client.OutstandingNodes())
			require.NoError(t, queue.Release(t.Context(), claim), "again, the first result")
		})
	}
}

func TestReleaseThatCannotReachAServerGoesOnInTheBackground(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		client := s.connect(s.options())
		queue := newQueue(t, client, &Options{ReleaseTimeout: 2 * time.Second})
		claim, err := queue.Claim(t.Context())
		require.NoError(t, err)
		s.detach()
		synctest.Wait()
		began := time.Now()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		err = queue.Release(ended, claim)
		require.ErrorIs(t, err, recipes.ErrUncertain)
		require.ErrorContains(t, err, claim.Path())
		require.Equal(t, 2*time.Second, time.Since(began), "its own bound counts, and not a ctx that is done")
		require.True(t, closed(claim.Done()))
		require.Equal(t, 1, client.OutstandingNodes())
		s.heal()
		time.Sleep(2 * time.Second)
		require.Empty(t, s.queue())
		require.Zero(t, client.OutstandingNodes())
	})
}

func TestReleaseThatTheCloseOvertakesWhileDetachedIsUncertain(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s, client, queue, claim := newHeld(t)
		late, err := New(client, "/late", nil)
		require.NoError(t, err)
		other, err := late.Claim(t.Context())
		require.NoError(t, err)
		s.detach()
		synctest.Wait()
		result := make(chan error, 1)
		go func() { result <- queue.Release(t.Context(), claim) }()
		synctest.Wait()
		client.Close()
		err = <-result
		require.ErrorIs(t, err, recipes.ErrUncertain)
		require.ErrorIs(t, err, recipes.ErrClosed)
		require.NotContains(t, err.Error(), "background")
		err = late.Release(t.Context(), other)
		require.ErrorIs(t, err, recipes.ErrLost, "one that begins later")
		require.ErrorIs(t, err, recipes.ErrClosed)
		s.heal()
	})
}
