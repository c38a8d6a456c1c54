// SPDX-License-Identifier: Apache-2.0

//go:build unix

package suite

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A process that is stopped past its session writes immediately when it continues: its request is rejected as a whole, by
// either check, and the data of the newer leader remain.
func TestPausedLeadersStaleWriteFailsAsAWhole(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second // of the process that is stopped
	for range 3 {
		s := onThree(t)
		s.state()
		leader := s.contender(contenderTask{Path: s.Path(lead), Timeout: timeout, Epochs: true})
		require.Equal(t, "epoch 1", leader.Await("epoch"))
		leader.Send("commit")
		require.Equal(t, "committed <nil>", leader.Await("committed"))
		s.requireState("process")

		leader.Stop()
		term, e := s.leadsEpoch(s.Connect(recipes.Options{SessionTimeout: 10 * time.Second}), "b")
		require.Equal(t, int64(2), e.Number())
		_, err := e.Commit(s.Ctx, writes(s.Path(lead), "b")...)
		require.NoError(t, err)

		leader.Send("commit")
		leader.Continue()
		late := leader.Await("committed")
		require.Contains(t, late, "epoch 1")
		require.Contains(t, late, "claim lost") // and the newer epoch, if a server reports it in time
		t.Log(late)
		own, newer := leader.Await("sent"), leader.Await("sent")
		for strings.Contains(own+newer, "connection closed") { // the connection ended during the stop: it retries
			leader.Send("commit")
			leader.Await("committed")
			own, newer = leader.Await("sent"), leader.Await("sent")
		}
		require.Contains(t, own, "node does not exist", "the check of its own node")
		require.Contains(t, newer, "version conflict", "the check of the epoch")
		s.requireState("b")
		leader.Await("lost")
		require.NoError(t, term.Resign(s.Ctx))
	}
}
