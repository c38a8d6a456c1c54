// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An overloaded server answers "throttled", a code that the client does not know. An immediate
// retry after each answer would add to its load.
func TestDeletionThatAServerAnswersWithAnUnknownErrorBacksOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		s.make("/l", parentMark)
		s.make("/l/another-lock-0000000000", "")
		client := s.connect(t, s.options())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var deletes atomic.Int64
		var served atomic.Bool
		s.on(func(r stubRequest) verdict {
			if r.op == opDelete && !served.Load() {
				if deletes.Add(1) > 1000 {
					served.Store(true) // or the clock stands still
				}
				return puzzle
			}
			return answer
		})
		_, err := newQueue(t, client, nil).Claim(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Minute)
		require.LessOrEqual(t, deletes.Load(), int64(10))
		require.Equal(t, 1, client.OutstandingNodes())
		served.Store(true)
		time.Sleep(2 * time.Minute)
		require.Zero(t, client.OutstandingNodes())
		require.Len(t, s.queue(), 1)
	})
}
