// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// The read of the node can fail before the end of the session has ended the claim.
func TestUpdateWhoseSessionEndsDuringItsReadReportsTheLossOfItsClaim(t *testing.T) {
	for range 50 {
		withServers(t, func(s servers) {
			client, link := s.connect()
			claim := s.claim(client)
			s.must(s.Create("/a", nil))
			node := s.node(client, "/a")
			link.Intercept(zktest.Rule{Op: "getData", Path: "/a", Hold: zktest.ToClient})
			updated := make(chan error)
			go func() {
				_, err := node.Update(s.Context(), claim, becomes("one"))
				updated <- err
			}()
			synctest.Wait()
			s.must(s.Expire(s.Context(), client.SessionID()))
			err := <-updated
			require.ErrorIs(s, err, recipes.ErrLost)
			require.ErrorIs(s, err, recipes.ErrSessionExpired)
			require.NotErrorIs(s, err, recipes.ErrUncertain, "nothing was sent to be written")
		})
	}
}

// ZooKeeper 3.8.0 answers a transaction with an error that the ZooKeeper client does not know if the session is closed at that
// moment. A server that keeps to such an error is believed.
func TestWaitContinuesAfterOneAnswerWithoutAName(t *testing.T) {
	withServers(t, func(s servers) {
		client, link := s.connect()
		node := s.node(client, "/a")
		link.Intercept(zktest.Rule{Op: "multi", Times: 1, Fail: zktest.ErrMarshallingError})
		s.must(node.AwaitDeleted(s.Context()))

		s.must(s.Create("/a", nil))
		link.Intercept(zktest.Rule{Op: "multi", Times: 1, Fail: zktest.ErrMarshallingError, Before: func(zktest.Request) {
			s.must(s.Expire(context.Background(), client.SessionID()))
		}})
		waiting := make(chan error, 1)
		go func() { waiting <- node.AwaitDeleted(s.Context()) }()
		synctest.Wait()
		time.Sleep(time.Second)
		require.Empty(s, waiting)
		s.must(s.Ensemble.Delete("/a"))
		s.must(<-waiting)

		link.Intercept(zktest.Rule{Op: "multi", Fail: zktest.ErrMarshallingError})
		require.ErrorContains(s, node.AwaitDeleted(s.Context()), "unknown error")
	})
}
