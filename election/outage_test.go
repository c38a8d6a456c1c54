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

// Thirty loops of Run share one client, whose connection three outages of T/5 end. Terms are
// short, so that requests are always in progress.
func TestRunsContinueAcrossOutages(t *testing.T) {
	bubble(t, func(s servers) {
		c := s.candidate(election.Options{})
		var terms atomic.Int32
		var loops []*background
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
			c.link.Reset()
			time.Sleep(timeout / 5)
			c.link.Refuse(false)
		}
		time.Sleep(timeout)
		led := terms.Load()
		time.Sleep(timeout)
		require.Greater(s, terms.Load(), led, "the loops continue")
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
