// SPDX-License-Identifier: Apache-2.0

package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

func guardOf(t *testing.T, db *sql.DB, dialect sqlfence.Dialect) *sqlfence.Guard {
	t.Helper()
	guard, err := sqlfence.New(db, dialect, nil)
	require.NoError(t, err)
	return guard
}

// put writes in the guard's transaction.
func put(tx *sql.Tx) error {
	_, err := tx.Exec("UPDATE ledger")
	return err
}

// never returns a write that must not run.
func never(t *testing.T) func(*sql.Tx) error {
	t.Helper()
	return func(*sql.Tx) error {
		require.Fail(t, "the function ran")
		return nil
	}
}

func TestWriteRunsAfterFenceInOneTransaction(t *testing.T) {
	for dialect, steps := range map[sqlfence.Dialect]string{
		sqlfence.PostgreSQL: "begin raise write same? commit",
		sqlfence.MySQL:      "begin raise read mark write release commit",
		sqlfence.SQLite:     "begin raise mark write release commit",
	} {
		f := &fake{newest: 7}
		require.NoError(t, guardOf(t, f.open(t), dialect).Do(t.Context(), "ledger", 7, put))
		require.Equal(t, steps, f.recorded(), dialect)
	}
}

func TestStaleWriteDoesNotRun(t *testing.T) {
	for _, dialect := range []sqlfence.Dialect{sqlfence.PostgreSQL, sqlfence.MySQL, sqlfence.SQLite} {
		f := &fake{newest: 8}
		err := guardOf(t, f.open(t), dialect).Do(t.Context(), "ledger", 7, never(t))
		var stale *fencing.StaleError
		require.ErrorAs(t, err, &stale)
		require.Equal(t, fencing.StaleError{Token: 7, Newest: 8}, *stale)
		require.True(t, strings.HasSuffix(f.recorded(), " rollback"), f.recorded())
	}
}

func TestTransactionThatEndedBeforeCommitIsReported(t *testing.T) {
	gone := errors.New("fake: no such savepoint")
	f := &fake{newest: 7, fails: map[string]error{"release": gone}}
	err := guardOf(t, f.open(t), sqlfence.MySQL).Do(t.Context(), "ledger", 7, put)
	require.ErrorIs(t, err, sqlfence.ErrTxEnded)
	require.ErrorIs(t, err, gone)
	require.NotErrorIs(t, err, sqlfence.ErrUncertain)
	require.NotContains(t, f.recorded(), "commit")

	// If the connection is lost with the savepoint, the function may have committed before.
	f = &fake{newest: 7, fails: map[string]error{"release": io.ErrUnexpectedEOF, "alive?": io.ErrClosedPipe, "rollback": io.EOF}}
	err = guardOf(t, f.open(t), sqlfence.MySQL).Do(t.Context(), "ledger", 7, put)
	require.ErrorIs(t, err, sqlfence.ErrUncertain)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NotErrorIs(t, err, sqlfence.ErrTxEnded)
}

func TestFunctionDoesNotRunInUnmarkedTransaction(t *testing.T) {
	f := &fake{newest: 7, fails: map[string]error{"mark": io.ErrClosedPipe}}
	err := guardOf(t, f.open(t), sqlfence.MySQL).Do(t.Context(), "ledger", 7, never(t))
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.NotErrorIs(t, err, sqlfence.ErrUncertain)
}

func TestLostCommitIsUncertainAndNeitherStaleNorSuccess(t *testing.T) {
	f := &fake{fails: map[string]error{"commit": io.ErrUnexpectedEOF}}
	guard := guardOf(t, f.open(t), sqlfence.PostgreSQL)
	err := guard.Do(t.Context(), "ledger", 7, put)
	require.ErrorIs(t, err, sqlfence.ErrUncertain)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NotErrorIs(t, err, fencing.ErrStale)
	require.ErrorIs(t, guard.Reset(t.Context(), "ledger", 7), sqlfence.ErrUncertain)
}

// A sqlState has the form of the errors of PostgreSQL's drivers.
type sqlState string

func (s sqlState) Error() string    { return "fake: " + string(s) }
func (s sqlState) SQLState() string { return string(s) }

func TestCommitRefusedByDatabaseIsNotUncertain(t *testing.T) {
	for state, uncertain := range map[sqlState]bool{
		"23505": false, // a constraint that was deferred
		"40001": false, // not serializable
		"40003": true,  // completion unknown
		"57P01": true,  // shut down
	} {
		f := &fake{fails: map[string]error{"commit": state}}
		err := guardOf(t, f.open(t), sqlfence.PostgreSQL).Do(t.Context(), "ledger", 7, put)
		require.ErrorIs(t, err, state)
		require.Equal(t, uncertain, errors.Is(err, sqlfence.ErrUncertain), state)
	}
}

func TestErrorOfWriteRollsBackAndIsReturned(t *testing.T) {
	// The rollback may fail because the connection is lost: without a commit nothing is kept.
	for _, fails := range []map[string]error{nil, {"rollback": io.ErrClosedPipe}} {
		f := &fake{fails: fails}
		failure := errors.New("failure")
		err := guardOf(t, f.open(t), sqlfence.PostgreSQL).Do(t.Context(), "ledger", 7, func(*sql.Tx) error { return failure })
		require.ErrorIs(t, err, failure)
		require.NotErrorIs(t, err, sqlfence.ErrUncertain)
		require.Equal(t, "begin raise rollback", f.recorded())
	}
}

func TestPanicOfWriteRollsBackAndPropagates(t *testing.T) {
	f := &fake{}
	guard := guardOf(t, f.open(t), sqlfence.PostgreSQL)
	require.PanicsWithValue(t, "failure", func() {
		_ = guard.Do(t.Context(), "ledger", 7, func(*sql.Tx) error { panic("failure") })
	})
	require.Equal(t, "begin raise rollback", f.recorded())
}

func TestWriteThatEndsTransactionIsReported(t *testing.T) {
	failure := errors.New("failure")
	for name, end := range map[string]func(*sql.Tx) error{
		"commits":                  (*sql.Tx).Commit,
		"rolls back":               (*sql.Tx).Rollback,
		"commits and fails":        func(tx *sql.Tx) error { return errors.Join(tx.Commit(), failure) },
		"rolls back and fails":     func(tx *sql.Tx) error { return errors.Join(tx.Rollback(), failure) },
		"commits and writes again": func(tx *sql.Tx) error { return errors.Join(tx.Commit(), put(tx)) },
	} {
		for _, dialect := range []sqlfence.Dialect{sqlfence.MySQL, sqlfence.PostgreSQL} {
			err := guardOf(t, (&fake{newest: 7}).open(t), dialect).Do(t.Context(), "ledger", 7, end)
			require.ErrorIs(t, err, sqlfence.ErrTxEnded, name)
			require.NotErrorIs(t, err, sqlfence.ErrUncertain, name)
		}
	}
}

func TestDoneContextCommitsNothing(t *testing.T) {
	for _, dialect := range []sqlfence.Dialect{sqlfence.MySQL, sqlfence.PostgreSQL} {
		f := &fake{newest: 7}
		guard := guardOf(t, f.open(t), dialect)
		ctx, cancel := context.WithCancel(t.Context())
		err := guard.Do(ctx, "ledger", 7, func(*sql.Tx) error { cancel(); return nil })
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, sqlfence.ErrUncertain)
		require.NotErrorIs(t, err, sqlfence.ErrTxEnded)
		require.ErrorIs(t, guard.Do(ctx, "ledger", 7, never(t)), context.Canceled)
		require.NotContains(t, f.recorded(), "commit")
	}
}

func TestDoneContextIsNotReportedAsEndedTransaction(t *testing.T) {
	f := &fake{}
	ctx, cancel := context.WithCancel(t.Context())
	err := guardOf(t, f.open(t), sqlfence.PostgreSQL).Do(ctx, "ledger", 7, func(*sql.Tx) error {
		cancel()
		require.Eventually(t, func() bool { return f.recorded() == "begin raise rollback" }, 10*time.Second, time.Millisecond)
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, sqlfence.ErrTxEnded)
}

func TestMissingTableIsReportedWithItsMigration(t *testing.T) {
	for _, dialect := range []sqlfence.Dialect{sqlfence.PostgreSQL, sqlfence.MySQL, sqlfence.SQLite} {
		f := &fake{noTable: true}
		guard := guardOf(t, f.open(t), dialect)
		_, newest := guard.Newest(t.Context(), "ledger")
		for _, err := range []error{
			guard.Do(t.Context(), "ledger", 7, never(t)),
			guard.Reset(t.Context(), "ledger", 7),
			newest,
		} {
			require.ErrorIs(t, err, sqlfence.ErrNoTable)
			require.ErrorIs(t, err, errNoSuchTable)
			require.ErrorContains(t, err, sqlfence.Migration(dialect))
		}
	}
}

func TestOtherFailuresOfFenceAreNotReportedAsMissingTable(t *testing.T) {
	for _, fails := range []map[string]error{{"raise": io.ErrClosedPipe}, {"raise": io.ErrClosedPipe, "table?": io.EOF}} {
		err := guardOf(t, (&fake{fails: fails}).open(t), sqlfence.MySQL).Do(t.Context(), "ledger", 7, never(t))
		require.ErrorIs(t, err, io.ErrClosedPipe)
		require.NotErrorIs(t, err, sqlfence.ErrNoTable)
	}
}

func TestInvalidArgumentsAreRefusedWithoutStatement(t *testing.T) {
	f := &fake{}
	guard := guardOf(t, f.open(t), sqlfence.SQLite)
	require.ErrorContains(t, guard.Do(t.Context(), "ledger", 7, nil), "function is nil")
	for _, token := range []fencing.Token{0, -1} {
		require.ErrorIs(t, guard.Do(t.Context(), "ledger", token, never(t)), fencing.ErrInvalid)
	}
	require.ErrorIs(t, guard.Reset(t.Context(), "ledger", -1), fencing.ErrInvalid)
	for resource, want := range map[string]string{
		"":                       "empty",
		strings.Repeat("x", 513): "513 bytes",
		"a\x00b":                 "NUL",
		"a\xffb":                 "UTF-8",
	} {
		require.ErrorContains(t, guard.Do(t.Context(), resource, 7, never(t)), want)
		require.ErrorContains(t, guard.Reset(t.Context(), resource, 0), want)
		_, err := guard.Newest(t.Context(), resource)
		require.ErrorContains(t, err, want)
	}
	for _, err := range []error{
		guard.Do(t.Context(), strings.Repeat("x", 1<<20), 7, never(t)),
		guard.Reset(t.Context(), strings.Repeat("x", 1<<20), 7),
	} {
		require.ErrorContains(t, err, "1048576 bytes")
		require.Less(t, len(err.Error()), 1000, "the error stays readable")
	}
	require.Empty(t, f.recorded())
}

func TestNewRefusesInvalidArguments(t *testing.T) {
	db := (&fake{}).open(t)
	_, err := sqlfence.New(nil, sqlfence.SQLite, nil)
	require.ErrorContains(t, err, "database is nil")
	for _, dialect := range []sqlfence.Dialect{0, 4, -1} {
		_, err = sqlfence.New(db, dialect, nil)
		require.ErrorContains(t, err, fmt.Sprintf("unknown dialect %d", int(dialect)))
	}
	for _, table := range []string{"fence; DROP TABLE ledger", "Fence", "app.", ".fence", "a.b.c", "app.1", "1fence", strings.Repeat("x", 49)} {
		_, err = sqlfence.New(db, sqlfence.SQLite, &sqlfence.Options{Table: table})
		require.ErrorContains(t, err, "is not a valid name")
	}
}

func TestMigrationNamesVersionAndTable(t *testing.T) {
	require.Empty(t, sqlfence.Migration(0))
	for _, dialect := range []sqlfence.Dialect{sqlfence.PostgreSQL, sqlfence.MySQL, sqlfence.SQLite} {
		text := sqlfence.Migration(dialect)
		require.Contains(t, text, fmt.Sprintf("%v, version %d\n", dialect, sqlfence.MigrationVersion))
		require.Contains(t, text, "CREATE TABLE IF NOT EXISTS lockkeeper_fence (")
		guard, err := sqlfence.New((&fake{}).open(t), dialect, &sqlfence.Options{Table: "my_fence"})
		require.NoError(t, err)
		require.Equal(t, strings.ReplaceAll(text, sqlfence.DefaultTable, "my_fence"), guard.Migration())
	}
}
