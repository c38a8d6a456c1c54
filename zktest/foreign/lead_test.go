// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
)

func TestCuratorsLeaderSelectorAndOurElectionLeadInTurn(t *testing.T) {
	s := serve(t)
	path, conn := s.root+"/election", s.connect(t)
	theirs := curator(t, "selector", s, path)
	ours, err := election.New(s.client(t), path, &election.Options{Owner: "ours"})
	require.NoError(t, err)

	theirs.startAcquire()
	theirs.awaitAcquired()
	leader, err := ours.Leader(bounded(t))
	require.NoError(t, err)
	require.Equal(t, "curator", leader.Owner, "the id in the selector's node")

	campaign := inBackground(t, ours.Campaign)
	waitForContenders(t, conn, path, 2)
	campaign.requireRunning("the selector leads")
	theirs.release()
	term := campaign.result()

	theirs.startAcquire()
	waitForContenders(t, conn, path, 2)
	theirs.RequireWaiting("our election leads")
	require.NoError(t, term.Resign(bounded(t)))
	theirs.awaitAcquired()
	theirs.release()
	theirs.Close()
}

func TestCuratorsLeaderLatchHandsOver(t *testing.T) {
	s := serve(t)
	path, conn := s.root+"/latch", s.connect(t)
	first, second := curator(t, "latch", s, path), curator(t, "latch", s, path)
	first.startAcquire()
	first.awaitAcquired()
	second.startAcquire()
	waitForContenders(t, conn, path, 2)
	second.RequireWaiting("the first leads")
	first.release()
	second.awaitAcquired()

	if s.ensemble != nil {
		first.startAcquire()
		waitForContenders(t, conn, path, 2)
		first.RequireWaiting("the second leads")
		require.NoError(t, s.ensemble.Expire(context.Background(), second.session()))
		first.awaitAcquired()
		second.Await("lost")
		waitForContenders(t, conn, path, 2) // the latch joins the end of the queue by itself
	}
	first.Close()
	second.Close()
}

// LeaderLatch and our election do not recognize each other's node names as contenders: two leaders overlap. A migration
// from one to the other has to take that into account.
func TestCuratorsLeaderLatchDoesNotExcludeOurElection(t *testing.T) {
	s := serve(t)
	path := s.root + "/election"
	theirs := curator(t, "latch", s, path)
	ours, err := election.New(s.client(t), path, nil)
	require.NoError(t, err)

	theirs.startAcquire()
	theirs.awaitAcquired()
	term, err := ours.Campaign(bounded(t))
	require.NoError(t, err)
	theirs.release()
	theirs.startAcquire()
	theirs.awaitAcquired()
	require.NoError(t, term.Err())
	require.NoError(t, term.Resign(bounded(t)))
	theirs.Close()
}
