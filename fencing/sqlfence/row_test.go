// SPDX-License-Identifier: Apache-2.0

package sqlfence_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

var job = sqlfence.Row{Update: "UPDATE jobs", Newest: "SELECT token FROM jobs"}

func TestRowThatChangesIsCommitted(t *testing.T) {
	f := &fake{affected: 1, newest: 9}
	require.NoError(t, sqlfence.UpdateRow(t.Context(), f.open(t), 7, job))
	require.Equal(t, "begin write commit", f.recorded())
}

func TestUnchangedRowIsReportedWithReason(t *testing.T) {
	f := &fake{newest: 8}
	err := sqlfence.UpdateRow(t.Context(), f.open(t), 7, job)
	var stale *fencing.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, fencing.StaleError{Token: 7, Newest: 8}, *stale)
	require.Equal(t, "begin write read rollback", f.recorded())

	require.ErrorIs(t, sqlfence.UpdateRow(t.Context(), (&fake{}).open(t), 7, job), sqlfence.ErrNoRow)

	err = sqlfence.UpdateRow(t.Context(), (&fake{newest: 7}).open(t), 7, job)
	require.ErrorContains(t, err, "changes no row, although the row's token is 7")
	require.NotErrorIs(t, err, fencing.ErrStale)
}

func TestStatementThatChangesSeveralRowsIsRolledBack(t *testing.T) {
	f := &fake{affected: 2}
	require.ErrorContains(t, sqlfence.UpdateRow(t.Context(), f.open(t), 7, job), "changes 2 rows")
	require.Equal(t, "begin write rollback", f.recorded())
}

func TestLostCommitOfRowIsUncertain(t *testing.T) {
	f := &fake{affected: 1, fails: map[string]error{"commit": io.EOF}}
	err := sqlfence.UpdateRow(t.Context(), f.open(t), 7, job)
	require.ErrorIs(t, err, sqlfence.ErrUncertain)
	require.NotErrorIs(t, err, fencing.ErrStale)
}

func TestFailuresOfRowAreReturned(t *testing.T) {
	for _, step := range []string{"begin", "write", "read"} {
		f := &fake{fails: map[string]error{step: io.ErrClosedPipe}}
		err := sqlfence.UpdateRow(t.Context(), f.open(t), 7, job)
		require.ErrorIs(t, err, io.ErrClosedPipe)
		require.NotErrorIs(t, err, sqlfence.ErrUncertain)
	}
}

func TestUpdateRowRefusesInvalidArguments(t *testing.T) {
	db := (&fake{}).open(t)
	require.ErrorContains(t, sqlfence.UpdateRow(t.Context(), nil, 7, job), "database is nil")
	require.ErrorIs(t, sqlfence.UpdateRow(t.Context(), db, 0, job), fencing.ErrInvalid)
	require.ErrorContains(t, sqlfence.UpdateRow(t.Context(), db, 7, sqlfence.Row{Update: "UPDATE jobs"}), "empty")
}

func TestRowOfAnotherHistoryIsRefused(t *testing.T) {
	f := &fake{newest: 6, history: "before"}
	row := sqlfence.Row{Update: "UPDATE jobs", Newest: "SELECT token, history FROM jobs", History: "after"}
	err := sqlfence.UpdateRow(t.Context(), f.open(t), 7, row)
	var other *fencing.HistoryError
	require.ErrorAs(t, err, &other)
	require.Equal(t, fencing.HistoryError{Token: 7, Given: "after", Stored: "before"}, *other)
	require.Equal(t, "begin write read rollback", f.recorded())

	f = &fake{newest: 8, history: "after"}
	require.ErrorIs(t, sqlfence.UpdateRow(t.Context(), f.open(t), 7, row), fencing.ErrStale)
	row.History = "a b"
	require.ErrorContains(t, sqlfence.UpdateRow(t.Context(), f.open(t), 7, row), "the history id")
}
