// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// ZooKeeper 3.8.0 answers a transaction with an error that the ZooKeeper client does not know if the session is closed at that
// moment.
func TestWaiterIsGrantedAfterOneAnswerWithoutANameToItsProof(t *testing.T) {
	for name, expired := range map[string]bool{"session lives": false, "session expired": true} {
		t.Run(name, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				s := newOccupied(t)
				client := s.connect(s.options())
				former := client.SessionID()
				result := claiming(t.Context(), newQueue(t, client, nil))
				time.Sleep(2 * testTimeout)
				odd := s.link.Intercept(zktest.Rule{When: isHeartbeat, Times: 1, Fail: zktest.ErrMarshallingError, Before: func(zktest.Request) {
					if expired {
						s.expire(former)
					}
				}})
				s.delete(another)
				g := <-result
				require.NoError(t, g.err)
				require.Equal(t, 1, odd.Fired())
				require.Equal(t, expired, client.SessionID() != former)
			})
		})
	}
}

func TestCheckSucceedsAfterOneAnswerWithoutAName(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s, _, _, claim := newHeld(t)
		odd := s.link.Intercept(zktest.Rule{When: isHeartbeat, Times: 1, Fail: zktest.ErrMarshallingError})
		require.NoError(t, claim.Check(t.Context()))
		require.Equal(t, 1, odd.Fired())
		s.link.Intercept(zktest.Rule{When: isHeartbeat, Fail: zktest.ErrMarshallingError})
		require.ErrorIs(t, claim.Check(t.Context()), recipes.ErrUncertain)
	})
}
