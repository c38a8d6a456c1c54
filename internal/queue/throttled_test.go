// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A server with a throttled_op_wait_time refuses requests that waited longer, and carries out nothing.
func TestRequestOfAClaimThatAServerThrottlesIsRepeatedWithBackOff(t *testing.T) {
	for _, op := range []string{"getData", "create", "createContainer", "multi", "getChildren2", "delete"} {
		t.Run(op, func(t *testing.T) {
			withServers(t, func(s servers) {
				client, link := s.connect()
				q, err := queue.New(client, "/l/a", nil)
				s.must(err)
				throttled := link.Intercept(zktest.Rule{Op: op, Times: 2, Fail: zktest.ErrThrottled})
				began := time.Now()
				c, err := q.Try(s.Context())
				s.must(err)
				s.must(q.Release(s.Context(), c))
				took := time.Since(began)
				switch {
				case throttled.Fired() == 0 && strings.HasPrefix(op, "create"): // one of the two creates the parents
				default:
					require.Equal(s, 2, throttled.Fired())
					require.GreaterOrEqual(s, took, nodeTimeout/64, "the pauses")
				}
				require.Less(s, took, nodeTimeout/16)
				children, err := s.Children("/l/a")
				s.must(err)
				require.Empty(s, children)
			})
		})
	}
}

func TestJoinThatAServerKeepsThrottlingEndsWithItsContextAndCreatesNothing(t *testing.T) {
	withServers(t, func(s servers) {
		client, link := s.connect()
		q, err := queue.New(client, "/l/a", nil)
		s.must(err)
		throttled := link.Intercept(zktest.Rule{Op: "multi", Fail: zktest.ErrThrottled})
		ctx, cancel := context.WithTimeout(s.Context(), 10*nodeTimeout)
		defer cancel()
		_, err = q.Claim(ctx)
		require.ErrorIs(s, err, context.DeadlineExceeded)
		require.NotErrorIs(s, err, recipes.ErrUncertain)
		require.ErrorContains(s, err, "throttles requests (ThrottledOp)")
		require.Less(s, throttled.Fired(), 25, "the pauses grow")
		throttled.Remove()
		require.Zero(s, client.OutstandingNodes())
	})
}

func TestProofOfAGrantThatAServerThrottlesIsRepeatedWithBackOff(t *testing.T) {
	withServers(t, func(s servers) {
		client, link := s.connect()
		q, err := queue.New(client, "/l/a", nil)
		s.must(err)
		c, err := q.Claim(s.Context())
		s.must(err)
		throttled := link.Intercept(zktest.Rule{Op: "multi", Times: 6, Fail: zktest.ErrThrottled})
		began := time.Now()
		s.must(c.Check(s.Context()))
		require.Equal(s, 6, throttled.Fired())
		require.Greater(s, time.Since(began), nodeTimeout/32)
		s.must(c.Err())
		s.must(q.Release(s.Context(), c))
	})
}

// The servers remove a container that has become empty. They can do so between two creates of a client.
func TestParentsThatAreReapedWhileAPathIsCreatedAreCreatedAgain(t *testing.T) {
	withServers(t, func(s servers) {
		client, link := s.connect()
		q, err := queue.New(client, "/x/y/z", nil)
		s.must(err)
		reaped := 0
		link.Intercept(zktest.Rule{Op: "createContainer", Below: "/x", Before: func(zktest.Request) {
			if reaped < 3 && s.Ensemble.Delete("/x") == nil { // it fails unless the node exists and is empty
				reaped++
			}
		}})
		c, err := q.Claim(s.Context())
		s.must(err)
		require.Equal(s, 3, reaped)
		s.must(q.Release(s.Context(), c))
	})
}
