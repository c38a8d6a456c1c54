// SPDX-License-Identifier: Apache-2.0

package session

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
	"github.com/lockkeeper/lockkeeper/internal/wiretest"
)

// hasEnded is a grant that another goroutine has ended a moment ago.
type hasEnded struct{}

func (hasEnded) End(error) func() { return nil }

// A heartbeat and a check of the claim may notice at the same time that another client has deleted its node.
// And the owner takes the grants whose deadline has passed before it schedules the deletion of their nodes.
func TestSecondNodeIsKeptForAQuarterTimeoutWhicheverGoroutineEndsTheGrant(t *testing.T) {
	t.Run("ended", func(t *testing.T) { secondIsKept(t, false) })
	t.Run("taken", func(t *testing.T) { secondIsKept(t, true) })
}

func secondIsKept(t *testing.T, taken bool) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		s, _ := openTestSession(t)
		n := nodes.NewNode("/", 0, "nonce")
		s.Nodes.Register(n)
		n.Path = "/contender"
		s.Joined(n)
		s.Nodes.BeginRewriteAnd(n, []byte("data"), "/number")
		_, err := s.conn.Create("/number", []byte("data"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		s.Nodes.SecondCreated(n)
		require.NoError(t, s.Grant(n, hasEnded{}, time.Now()))
		if taken {
			require.Len(t, s.Nodes.TakeIf(func() bool { return true }, time.Time{}), 1)
		}
		lost := time.Now()
		require.True(t, s.MarkLost(n))
		for {
			exists, err := s.Exists(t.Context(), "/number")
			require.NoError(t, err)
			if !exists {
				break
			}
			time.Sleep(wiretest.Timeout / 48)
		}
		require.GreaterOrEqual(t, time.Since(lost), wiretest.Timeout/4)
		require.Less(t, time.Since(lost), wiretest.Timeout/2)
	})
}
