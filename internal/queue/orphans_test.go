// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// The client has to search for nodes whose creates were not answered, with several round trips below each parent.
func TestNodesOfManyUnansweredJoinsBlockTheirQueuesForFewRoundTripsAfterAnOutage(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		const (
			orphans   = 64 // that many joins are in flight at the same time
			roundTrip = 20 * time.Millisecond
		)
		link := s.Link()
		link.Delay(roundTrip / 2)
		client, other := s.loaded(recipes.Options{Dial: link.Dial}), s.loaded(recipes.Options{})
		var own, others []*queue.Queue
		for i := range orphans {
			path := fmt.Sprintf("/d/%d", i)
			own, others = append(own, s.queue(client, path)), append(others, s.queue(other, path))
			s.take(own[i])()
			s.take(others[i])() // so that both know the path
		}
		holder, first := s.holds(other, "/w"), s.queue(client, "/x")
		s.take(first)()
		waiting := make(chan error, 1)
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		go func() {
			_, err := s.queue(client, "/w").Claim(ctx)
			waiting <- err
		}()
		s.queued("/w", 2, time.Second)

		unanswered := link.Intercept(zktest.Rule{Op: "create", Below: "/d", Hold: zktest.ToClient})
		var joining sync.WaitGroup
		var answered sync.WaitGroup
		answered.Go(func() { s.take(first)() })
		synctest.Wait() // its create is in flight: the others are sent together, once it is answered
		for _, q := range own {
			joining.Go(func() {
				if _, err := q.Claim(ctx); err == nil {
					s.Error("the claim was granted")
				}
			})
		}
		for i := range orphans {
			s.queued(fmt.Sprintf("/d/%d", i), 1, time.Second/2)
		}
		<-ctx.Done()
		link.Refuse(true)
		link.Reset()
		joining.Wait()
		require.Error(s, <-waiting)
		unanswered.Remove()
		attached := make(chan time.Time, 1)
		link.Intercept(zktest.Rule{Op: "connect", Times: 1, Before: func(zktest.Request) { attached <- time.Now() }})
		link.Refuse(false)
		began := <-attached

		s.queued("/w", 1, 4*roundTrip)
		require.LessOrEqual(s, time.Since(began), 4*roundTrip, "the node's path is known")
		var claiming sync.WaitGroup
		for _, q := range others {
			claiming.Go(func() { s.take(q) })
		}
		claiming.Wait()
		require.LessOrEqual(s, time.Since(began), 20*roundTrip)
		answered.Wait()
		require.NoError(s, s.queue(other, "/w").Release(s.Context(), holder))
	})
}
