// SPDX-License-Identifier: Apache-2.0

package historic

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

var curator = library{name: "Curator", short: "curator", version: "5.4.0", lacks: "Java and Curator"}

// fixed621 is the first version of Curator in which a downgraded reader keeps the number of its writer.
const fixed621 = "5.5.0"

var ofCurator = []bug{
	{
		library: &curator, number: "206", report: "https://issues.apache.org/jira/browse/CURATOR-206",
		wrong:  "The mutex does not notify its holder of a loss; documented: the connection's listener does",
		here:   "`Hold.Done` before the next grant",
		theirs: curatorHoldsAfterALoss, ours: holderIsNotifiedAndLocksAgain,
	},
	{
		library: &curator, number: "621", report: "https://issues.apache.org/jira/browse/CURATOR-621", fixed: fixed621,
		wrong:  "A waiting writer is granted the lock beside a downgraded reader",
		here:   "the writer waits",
		theirs: curatorDowngrades, ours: writerWaitsForTheDowngraded,
	},
}

func curatorHoldsAfterALoss(t *testing.T) {
	s := serve(t)
	holder, next := s.curator("mutex"), s.curator("mutex")
	holder.acquire()
	require.NoError(t, s.Expire(t.Context(), holder.session))
	next.acquire()
	holder.Await("lost") // reported by the listener of its connection
	require.Equal(t, "holds true", holder.Request("holds", "holds"))
	require.Equal(t, "holds true", next.Request("holds", "holds"))
}

func curatorDowngrades(t *testing.T) {
	s := serve(t)
	require.NoError(t, s.Create(path, nil))
	downgraded := s.curator("downgrade")
	downgraded.unlessFixed(fixed621)
	writer := s.curator("write")
	// It creates its writer's node, and then its reader's, which is held until the other writer has joined.
	second := s.Intercept(zktest.Rule{Op: "create", Below: path, Session: downgraded.session, Skip: 1, Times: 1, Hold: zktest.ToServer})
	downgraded.Send("acquire")
	s.eventually("request for the reader's node", func() bool { return second.Held() == 1 })
	writer.Send("acquire")
	writer.waitsFor(downgraded.queued())
	second.Release()
	downgraded.Await("acquired")
	writer.Await("acquired")
	require.NotEmpty(t, downgraded.queued(), "it reads")
}

func writerWaitsForTheDowngraded(t *testing.T) {
	bubble(t, func(s servers) {
		hold, err := s.rwMutex().Lock(s.Context())
		require.NoError(s, err)
		writer := begin(s.T, s.rwMutex().Lock)
		soon()
		require.NoError(s, hold.Downgrade(s.Context()))
		soon()
		require.NoError(s, hold.Check(s.Context()), "it reads")
		require.False(s, writer.over())
		require.NoError(s, hold.Unlock(s.Context()))
		require.NoError(s, writer.result().Unlock(s.Context()))
	})
}
