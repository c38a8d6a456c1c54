// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
)

func TestCuratorsLeaderSelectorAndOurElectionLeadInTurn(t *testing.T) {
	s := serve(t)
	path, conn := s.root+"/election", s.connect(t)
	theirs := curator(t, "selector", s, path)
	ours, err := election.New(s.client(t), path, &election.Options{ID: "ours"})
	require.NoError(t, err)

	theirs.askToTake()
	theirs.taken()
	leader, err := ours.Leader(bounded(t))
	require.NoError(t, err)
	require.Equal(t, "curator", leader.ID, "the id that the selector writes into its node")

	campaign := inBackground(t, ours.Campaign)
	inLine(t, conn, path, 2)
	campaign.waits("the selector leads")
	theirs.leave()
	term := campaign.result()

	theirs.askToTake()
	inLine(t, conn, path, 2)
	theirs.waits("we lead")
	require.NoError(t, term.Resign(bounded(t)))
	theirs.taken()
	theirs.leave()
	theirs.finish()
}

func TestCuratorsLeaderLatchHandsOver(t *testing.T) {
	s := serve(t)
	path, conn := s.root+"/latch", s.connect(t)
	first, second := curator(t, "latch", s, path), curator(t, "latch", s, path)
	first.askToTake()
	first.taken()
	second.askToTake()
	inLine(t, conn, path, 2)
	second.waits("the first leads")
	first.leave()
	second.taken()

	if s.ensemble != nil {
		first.askToTake()
		inLine(t, conn, path, 2)
		first.waits("the second leads")
		require.NoError(t, s.ensemble.Expire(second.session()))
		first.taken()
		second.ask("lost", "lost")
		inLine(t, conn, path, 2) // the latch goes to the end of the line by itself
	}
	first.finish()
	second.finish()
}

// Their nodes have names that we do not count as contenders, and ours are none to them: two lead at once. Whoever moves
// from one to the other has to know that.
func TestCuratorsLeaderLatchAndOurElectionDoNotSeeEachOther(t *testing.T) {
	s := serve(t)
	path := s.root + "/election"
	theirs := curator(t, "latch", s, path)
	ours, err := election.New(s.client(t), path, nil)
	require.NoError(t, err)

	theirs.askToTake()
	theirs.taken()
	term, err := ours.Campaign(bounded(t))
	require.NoError(t, err)
	theirs.leave()
	theirs.askToTake()
	theirs.taken()
	require.NoError(t, term.Err())
	require.NoError(t, term.Resign(bounded(t)))
	theirs.finish()
}
