// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
)

// Loops run on one client, and outages of T/5 end its connection under their requests. A
// leader resigns all the time, so that there always are some.
func TestNoRunOfManyEndsOverOutages(t *testing.T) {
	bubble(t, func(s servers) {
		c := s.candidate(election.Options{})
		var terms atomic.Int32
		var loops []*running
		for range 30 {
			loops = append(loops, s.run(c, func(ctx context.Context, term *election.Term) error {
				terms.Add(1)
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
				return term.Resign(ctx)
			}))
		}
		for range 3 {
			time.Sleep(timeout)
			c.link.Refuse(true)
			c.link.Cut()
			time.Sleep(timeout / 5)
			c.link.Refuse(false)
		}
		time.Sleep(timeout)
		led := terms.Load()
		time.Sleep(timeout)
		require.Greater(s, terms.Load(), led, "they go on")
		for _, r := range loops {
			select {
			case err := <-r.result:
				require.Fail(s, "ended", "%v", err)
			default:
			}
		}
		for _, r := range loops {
			r.stop()
		}
		for _, r := range loops {
			require.NoError(s, <-r.result)
		}
	})
}
