// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
	"github.com/lockkeeper/lockkeeper/internal/wiretest"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// The ensemble may have been restored before the session was attached again. Many young claims wait for their watches: to read all of
// them would delay the heartbeat at each reconnection.
func TestUnwatchedNodesAreReadOnANewConnectionUpToAHeartbeatsNumber(t *testing.T) {
	for _, tt := range []struct{ claims, reads int }{{nodes.MaxChecks, nodes.MaxChecks}, {nodes.MaxChecks + 1, 0}} {
		faketime.Test(t, func(t *testing.T) {
			s, link := openTestSession(t)
			var claims []*nodes.Node
			for i := range tt.claims {
				claims = append(claims, contend(t, s, fmt.Sprintf("/contender-%03d", i)))
			}
			time.Sleep(2 * wiretest.Timeout)
			for _, n := range claims { // since the last heartbeat
				require.NoError(t, s.Nodes.Grant(n, hasEnded{}, time.Now()))
			}
			reads := link.Intercept(zktest.Rule{Op: "getData"})
			s.examineUnwatched()
			synctest.Wait()
			require.Equal(t, tt.reads, reads.Fired())
		})
	}
}

// A server that has deleted the nodes of an expired session may answer requests until it ends the connection.
func TestReadOfAMissingNodeOnANewConnectionLeavesItsCauseToTheHeartbeat(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s, link := openTestSession(t)
		n := contend(t, s, "/contender")
		ended := make(reportsEnd, 1)
		require.NoError(t, s.Nodes.Grant(n, ended, time.Now()))
		read := link.Intercept(zktest.Rule{Op: "getData", Fail: zktest.ErrNoNode})
		s.examineUnwatched()
		synctest.Wait()
		require.Equal(t, 1, read.Fired())
		require.Empty(t, ended)
	})
}

// No heartbeat would find the node of another contender: its version is the same.
func TestReadOnANewConnectionIsRepeatedUntilItIsAnswered(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s, link := openTestSession(t)
		n := contend(t, s, "/contender")
		require.NoError(t, s.Nodes.Grant(n, make(reportsEnd, 1), time.Now()))
		slow := link.Intercept(zktest.Rule{Op: "getData", Delay: wiretest.Timeout / 7, Times: 2})
		s.examineUnwatched()
		time.Sleep(wiretest.Timeout / 2)
		require.Equal(t, 2, slow.Fired())
	})
}

func TestNodeThatTheSessionWritesAfterItIsReadIsNotLost(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s, _ := openTestSession(t)
		n := contend(t, s, "/contender")
		ended := make(reportsEnd, 1)
		require.NoError(t, s.Nodes.Grant(n, ended, time.Now()))
		before, err := s.readOwn(n)
		require.NoError(t, err)

		s.Nodes.BeginRewrite(n, []byte("shared"))
		_, err = s.conn.Set(n.Path, []byte("shared"), 0)
		require.NoError(t, err)
		require.True(t, s.Nodes.Recognise(n, 1, []byte("shared")))
		_, cause := s.markRead(n, before, nil)
		require.NoError(t, cause)
		require.Empty(t, ended)

		_, err = s.conn.Set(n.Path, []byte("of an operator"), 1)
		require.NoError(t, err)
		after, err := s.readOwn(n)
		require.NoError(t, err)
		_, cause = s.markRead(n, after, nil)
		require.ErrorIs(t, cause, sentinel.ErrDeleted)
		require.Len(t, ended, 1)
	})
}

// reportsEnd is a grant that sends the cause of its end.
type reportsEnd chan error

func (r reportsEnd) End(cause error) func() {
	r <- cause
	return nil
}
