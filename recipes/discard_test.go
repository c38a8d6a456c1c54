// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// An overloaded server answers "throttled", a code that the client does not know. An immediate
// retry after each answer would add to its load.
func TestDeletionThatAServerAnswersWithAnUnknownErrorBacksOff(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		client := s.connect(s.options())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		throttled := s.Intercept(zktest.Rule{Op: "delete", Times: 1000, Fail: zktest.ErrThrottled})
		_, err := newQueue(t, client, nil).Claim(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Minute)
		require.LessOrEqual(t, throttled.Fired(), 10)
		require.Equal(t, 1, client.OutstandingNodes())
		throttled.Remove()
		time.Sleep(2 * time.Minute)
		require.Zero(t, client.OutstandingNodes())
		require.Len(t, s.queue(), 1)
	})
}
