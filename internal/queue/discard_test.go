// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// An immediate retry after each answer would add to the load of a server that is overloaded, or whatever its trouble is. One that
// throttles requests may carry out the next one, so that is sent sooner.
func TestDeletionThatAServerAnswersWithAnUnknownErrorBacksOff(t *testing.T) {
	for answer, most := range map[error]int{zktest.ErrSystemError: 10, zktest.ErrThrottled: 30} {
		faketime.Test(t, func(t *testing.T) {
			s := newOccupied(t)
			client := s.connect(s.options())
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			refused := s.Intercept(zktest.Rule{Op: "delete", Times: 1000, Fail: answer})
			_, err := newQueue(t, client, nil).Claim(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			time.Sleep(time.Minute)
			require.LessOrEqual(t, refused.Fired(), most)
			require.Equal(t, 1, client.OutstandingNodes())
			refused.Remove()
			time.Sleep(2 * time.Minute)
			require.Zero(t, client.OutstandingNodes())
			require.Len(t, s.queue(), 1)
		})
	}
}
