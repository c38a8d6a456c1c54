// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"slices"
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

// The read of a node that an event names can fail, and its holder can release it before a heartbeat checks it.
func TestReleaseOfANodeThatIsToBeCheckedAfterAnEventEndsTheCheck(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		s.link.Delay(time.Millisecond)
		client := s.connect(s.options())
		s.outdated(client)
		other, err := New(client, "/other", nil)
		require.NoError(t, err)
		_, err = other.Claim(t.Context())
		require.NoError(t, err)
		queue := newQueue(t, client, nil)
		time.AfterFunc(testTimeout/12, func() { s.delete(another) }) // by then the client watches its own node
		claim, err := queue.Claim(t.Context())
		require.NoError(t, err)
		event := s.link.Intercept(zktest.Rule{Op: "notification", Path: claim.Path()})
		s.link.Intercept(zktest.Rule{Op: "getData", Path: claim.Path(), Delay: testTimeout / 7})
		s.link.Reset()
		time.Sleep(testTimeout / 10)
		require.Equal(t, 1, event.Fired())
		require.NoError(t, queue.Release(t.Context(), claim))
		sent := len(s.heartbeats())
		time.Sleep(testTimeout / 2)
		require.Less(t, len(s.heartbeats())-sent, 10)
	})
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

// A server that refuses to set watches again ends them all, so that the waiter lists, and asks for a proof. An operator deletes its
// node after that, and then the predecessor leaves.
func TestWaiterWhoseNodeWasDeletedAfterTheProofOfAnEarlierEventIsNotGranted(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := newOccupied(t)
		result := claiming(t.Context(), newQueue(t, s.connect(s.options()), nil))
		time.Sleep(3 * testTimeout) // its join is no proof any more
		own := slices.DeleteFunc(s.queue(), func(path string) bool { return path == another })[0]
		refused := s.link.Intercept(zktest.Rule{Op: "setWatches", Fail: zktest.ErrThrottled, Times: 1})
		s.link.Intercept(zktest.Rule{Op: "getChildren", Times: 1, Delay: testTimeout / 100}) // so that the check is sent by then
		gate := s.link.Intercept(zktest.Rule{Op: "getData", Path: another, Hold: zktest.ToServer})
		s.link.Reset()
		time.Sleep(testTimeout / 24)
		require.Equal(t, 1, refused.Fired())
		require.Equal(t, 1, gate.Held())
		s.delete(own)
		s.delete(another)
		gate.Remove()
		g := <-result
		require.NoError(t, g.err)
		require.Contains(t, s.queue(), g.claim.Path())
	})
}
