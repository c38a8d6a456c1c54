// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// outdated makes the client's next connection but one report an old zxid with its watches: the server of the next one refuses
// to set them. The server then reports each node that was created since as written, if it is watched.
func (s *ensemble) outdated(client *recipes.Client) {
	s.t.Helper()
	s.create("/n", "")
	_, _, _, err := client.Conn().GetW("/n")
	require.NoError(s.t, err)
	refused := s.link.Intercept(zktest.Rule{Op: "setWatches", Fail: zktest.ErrThrottled, Times: 1})
	s.link.Reset()
	time.Sleep(testTimeout)
	require.Equal(s.t, 1, refused.Fired())
}

func TestEventOfANodeThatNoOtherClientHasWrittenEndsNoClaim(t *testing.T) {
	for name, slow := range map[string]time.Duration{"read": 0, "not read in time": testTimeout / 7} {
		t.Run(name, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				s := newOccupied(t)
				client := s.connect(s.options())
				s.outdated(client)
				queue := newQueue(t, client, nil)
				time.AfterFunc(testTimeout/12, func() { s.delete(another) }) // by then the client watches its own node
				claim, err := queue.Claim(t.Context())
				require.NoError(t, err)
				event := s.link.Intercept(zktest.Rule{Op: "notification", Path: claim.Path()})
				s.link.Intercept(zktest.Rule{Op: "getData", Path: claim.Path(), Delay: slow})
				s.link.Reset()
				time.Sleep(testTimeout / 2)
				require.Equal(t, 1, event.Fired())
				require.NoError(t, claim.Err())

				s.set(claim.Path(), "theirs")
				time.Sleep(testTimeout / 2)
				require.ErrorIs(t, claim.Err(), recipes.ErrDeleted)
			})
		})
	}
}

// More holds than one heartbeat checks are watched instead, and an event spends a watch also if it ends no claim.
func TestDeletionOfOneOfManyHoldsIsNotifiedAfterAnEventThatEndsNoClaim(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		const holds = 200
		s := newEnsemble(t)
		client := s.connect(s.options())
		s.outdated(client)
		claims := make([]*recipes.Claim, holds)
		for i := range claims {
			queue, err := New(client, fmt.Sprintf("/many/%d", i), nil)
			require.NoError(t, err)
			claims[i], err = queue.Claim(t.Context())
			require.NoError(t, err)
		}
		time.Sleep(testTimeout)
		events := s.link.Intercept(zktest.Rule{Op: "notification"})
		s.link.Reset()
		time.Sleep(testTimeout)
		require.GreaterOrEqual(t, events.Fired(), holds)

		for _, claim := range claims {
			began := time.Now()
			s.delete(claim.Path())
			<-claim.Done()
			require.Less(t, time.Since(began), testTimeout/24)
		}
	})
}
