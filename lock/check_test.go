// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// No server answers the check, and the caller's context has no deadline.
func TestCheckReturnsWhenTheHoldEnds(t *testing.T) {
	bubble(t, func(s servers) {
		mu, link := s.mutex("a")
		hold := s.lock(mu)
		link.Hold(zktest.ToClient)
		err := hold.Check(context.WithoutCancel(s.Context()))
		require.ErrorIs(s, err, recipes.ErrLost)
		require.ErrorIs(s, err, recipes.ErrDeadline)
		select {
		case <-hold.Done():
		default:
			require.Fail(s, "the hold has not ended")
		}
		other, _ := s.mutex("b")
		_, err = other.TryLock(s.Context())
		require.Error(s, err, "Check has returned before another client can be granted the lock")
		link.Release()
	})
}
