// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// The next contender of the same client watches the first one's node since the connection before. The server of this connection does
// not have that watch yet when the node is deleted.
func TestWaiterWhoseNodeAnotherContenderWatchedOnAnEarlierConnectionIsNotGrantedWithoutIt(t *testing.T) {
	for range 20 { // the two events come in either order
		faketime.Test(t, func(t *testing.T) {
			s := newOccupied(t)
			client := s.connect(s.options())
			known := newQueue(t, client, nil)
			first := claiming(t.Context(), known)
			time.Sleep(testTimeout / 100)
			own := slices.DeleteFunc(s.queue(), func(path string) bool { return path == another })[0]
			second := claiming(t.Context(), newQueue(t, client, nil))
			time.Sleep(testTimeout / 100)
			again := s.link.Intercept(zktest.Rule{Op: "setWatches", Hold: zktest.ToServer})
			s.link.Reset()
			time.Sleep(testTimeout / 24) // the first contender watches its own node
			require.Equal(t, 1, again.Fired())
			s.delete(own)
			s.delete(another)
			s.link.Intercept(zktest.Rule{Op: "notification", Path: own, Delay: testTimeout / 100})
			again.Release()
			for range 2 {
				var g granted
				select {
				case g = <-first:
				case g = <-second:
				}
				require.NoError(t, g.err)
				require.Contains(t, s.queue(), g.claim.Path())
				require.NoError(t, known.Release(t.Context(), g.claim))
			}
		})
	}
}
