// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
)

// Tokens of an ensemble that has lost its data are given again.
func TestObserverSeesTheLeaderThatHasTheTokenOfTheLastOneAfterAWipe(t *testing.T) {
	bubble(t, func(s servers) {
		seen := s.follow()
		first, second := s.candidate(election.Options{Owner: "first"}), s.candidate(election.Options{Owner: "second"})
		s.pad("/before-", 100)
		term := s.lead(first)
		require.Equal(s, "first", (<-seen).Owner)
		session := second.client.SessionID()
		require.NoError(s, s.Server(1).Wipe())
		require.NoError(s, s.WaitServing(s.Context()))
		require.NoError(s, s.Create("/election", nil))
		require.NoError(s, s.Create(path, nil))
		<-term.Done()
		for second.client.SessionID() == session {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(3 * timeout) // until all clients have another session
		s.pad("/after-", int64(term.Token())-1)
		require.Equal(s, term.Token(), s.lead(second).Token())
		select {
		case leader := <-seen:
			require.Equal(s, "second", leader.Owner)
		case <-time.After(timeout):
			require.Fail(s, "the former leader is still shown")
		}
	})
}

// pad creates nodes until the last transaction has that zxid.
func (s servers) pad(prefix string, zxid int64) {
	s.Helper()
	for s.Zxid() < zxid {
		require.NoError(s, s.Create(fmt.Sprint(prefix, s.Zxid()), nil))
	}
	require.Equal(s, zxid, s.Zxid())
}
