// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// holdsMany claims n paths at the same time.
func (s servers) holdsMany(client *recipes.Client, n int) []*recipes.Claim {
	s.Helper()
	claims := make([]*recipes.Claim, n)
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range claims {
		queue := s.queue(client, fmt.Sprintf("/held/%d", i))
		all.Go(func() { claims[i], errs[i] = queue.Claim(s.Context()) })
	}
	all.Wait()
	for _, err := range errs {
		require.NoError(s, err)
	}
	return claims
}

// deletes deletes the nodes of claims, and returns how long it took until the last
// holder was notified.
func (s servers) deletes(claims ...*recipes.Claim) time.Duration {
	s.Helper()
	began := time.Now()
	for _, claim := range claims {
		require.NoError(s, s.Delete(claim.Path()))
	}
	for _, claim := range claims {
		<-claim.Done()
		require.ErrorIs(s, claim.Err(), recipes.ErrDeleted)
	}
	return time.Since(began)
}

func (s servers) requireHeld(claims []*recipes.Claim) {
	s.Helper()
	for _, claim := range claims {
		require.NoError(s, claim.Err())
	}
}

const manyHolds = 1000 // several times what one heartbeat can check

func TestDeletedNodesOfASessionWithManyAreNotifiedImmediately(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		link := s.Link()
		link.Delay(time.Millisecond)
		client := s.loaded(recipes.Options{Dial: link.Dial})
		claims := s.holdsMany(client, manyHolds)
		// After the first heartbeat that does not check all nodes, the session watches the rest.
		first, second, third := claims[0], claims[manyHolds/2], claims[manyHolds-1]
		took := s.deletes(first, second, third)
		require.LessOrEqual(s, took, loadTimeout/6+loadTimeout/24, "as soon as they are held")

		claims = append(claims[1:manyHolds/2:manyHolds/2], claims[manyHolds/2+1:manyHolds-1]...)
		time.Sleep(loadTimeout + time.Second/7)
		took = s.deletes(claims[0], claims[400], claims[len(claims)-1])
		require.Less(s, took, loadTimeout/48, "at any later time")

		claims = append(claims[1:400:400], claims[401:len(claims)-1]...)
		time.Sleep(loadTimeout)
		link.Refuse(true)
		link.Reset()
		synctest.Wait()
		time.AfterFunc(loadTimeout/8, func() { link.Refuse(false) })
		took = s.deletes(claims[0], claims[500], claims[len(claims)-1])
		require.LessOrEqual(s, took, loadTimeout/8+loadTimeout/12, "during an outage: at its end")

		claims = append(claims[1:500:500], claims[501:len(claims)-1]...)
		time.Sleep(2 * loadTimeout)
		s.requireHeld(claims)
		require.Equal(s, len(claims), client.OutstandingNodes())
	})
}

func TestDeletionOfMostNodesOfASessionCostsNoOtherClaim(t *testing.T) {
	need.NoRaceDetector(t)
	for name, settled := range map[string]time.Duration{"just held": 0, "held for long": 2 * loadTimeout} {
		t.Run(name, func(t *testing.T) {
			crowded(t, zktest.Options{}, func(s servers) {
				link := s.Link()
				link.Delay(5 * time.Millisecond)
				client := s.loaded(recipes.Options{Dial: link.Dial})
				var kept, doomed []*recipes.Claim
				for i, claim := range s.holdsMany(client, manyHolds) {
					if i%5 < 3 {
						doomed = append(doomed, claim)
					} else {
						kept = append(kept, claim)
					}
				}
				time.Sleep(settled)
				took := s.deletes(doomed...)
				require.LessOrEqual(s, took, loadTimeout/6+loadTimeout/12)
				time.Sleep(2 * loadTimeout)
				s.requireHeld(kept)
				for _, claim := range kept {
					require.NoError(s, claim.Check(s.Context()))
				}
				require.Equal(s, len(kept), client.OutstandingNodes())
			})
		})
	}
}
