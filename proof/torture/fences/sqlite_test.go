// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/fencetest"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

// sqlite returns the database in file. If patient is set, a statement waits while the database is busy. A commit does not wait for
// the disk, as on the servers of these tests: no test ends the machine.
func sqlite(file, journal string, patient bool) source {
	dsn := "file:" + file + "?_pragma=synchronous(OFF)&_pragma=journal_mode(" + journal + ")"
	if patient {
		dsn += "&_pragma=busy_timeout(60000)"
	}
	return source{driver: "sqlite", dialect: sqlfence.SQLite, dsn: dsn}
}

// empty returns a database with the fence's table and one for entries, in a temporary folder.
func empty(t *testing.T, journal string) source {
	t.Helper()
	s := sqlite(filepath.Join(t.TempDir(), "test.db"), journal, true)
	s.prepare(t)
	return s
}

func TestGuardOnSQLiteIsAGuard(t *testing.T) {
	for _, journal := range []string{"DELETE", "WAL"} {
		t.Run(journal, func(t *testing.T) {
			fencetest.Run(t, func(t *testing.T) fencetest.Subject {
				t.Helper()
				return subject(empty(t, journal), nil)
			})
		})
	}
}

func TestTokenWaitsForTheWriteOfAnother(t *testing.T) {
	for _, journal := range []string{"DELETE", "WAL"} {
		file := filepath.Join(t.TempDir(), "test.db")
		s := sqlite(file, journal, true)
		s.prepare(t)
		requireWait(t, s, sqlite(file, journal, false))
	}
}

func TestMissingSQLiteTableErrorNamesTheStatementThatCreatesIt(t *testing.T) {
	requireMissingTableError(t, sqlite(filepath.Join(t.TempDir(), "test.db"), "WAL", true), nil)
}

func TestWriteThatCommitsByItselfIsReportedAndFenced(t *testing.T) {
	s := empty(t, "WAL")
	guard, err := sqlfence.New(s.open(t), s.dialect, nil)
	require.NoError(t, err)
	require.ErrorIs(t, guard.Do(t.Context(), "ledger", 7, (*sql.Tx).Commit), sqlfence.ErrTxEnded)
	require.ErrorIs(t, guard.Do(t.Context(), "ledger", 6, (*sql.Tx).Commit), fencing.ErrStale)
	require.ErrorIs(t, guard.Do(t.Context(), "ledger", 8, (*sql.Tx).Rollback), sqlfence.ErrTxEnded)
	newest, err := guard.Newest(t.Context(), "ledger")
	require.NoError(t, err)
	require.EqualValues(t, 7, newest)
}

// Some statements of SQLite end the transaction, some of them when they fail. Later statements commit by themselves, unfenced.
func TestStatementThatEndsTheTransactionIsReportedInSQLite(t *testing.T) {
	for name, ends := range map[string]func(*testing.T, *sql.Tx) error{
		"a commit":                  statement("COMMIT"),
		"a rollback":                statement("ROLLBACK"),
		"a conflict that is hidden": hidden(statement("INSERT OR ROLLBACK INTO entries VALUES ('ledger', 'again')")),
		"an end that is hidden":     hidden(interrupted),
	} {
		t.Run(name, func(t *testing.T) {
			s := empty(t, "WAL")
			e := entriesIn(t, s, nil)
			require.NoError(t, e.Write(t.Context(), "ledger", 6, "six"))
			err := e.guard.Do(t.Context(), "ledger", 7, func(tx *sql.Tx) error { return ends(t, tx) })
			require.ErrorIs(t, err, sqlfence.ErrTxEnded)
			require.NotErrorIs(t, err, sqlfence.ErrUncertain)
			require.NoError(t, e.Write(t.Context(), "ledger", 7, "seven"), "the connection can be used again")
		})
	}
}

func statement(text string) func(*testing.T, *sql.Tx) error {
	return func(t *testing.T, tx *sql.Tx) error {
		t.Helper()
		_, err := tx.ExecContext(t.Context(), text)
		return err
	}
}

// hidden requires that the statement fails, and hides the error.
func hidden(fails func(*testing.T, *sql.Tx) error) func(*testing.T, *sql.Tx) error {
	return func(t *testing.T, tx *sql.Tx) error {
		t.Helper()
		require.Error(t, fails(t, tx))
		return nil
	}
}

// interrupted is an endless write that its own context interrupts. It retries if the context ends before the write begins.
func interrupted(t *testing.T, tx *sql.Tx) error {
	t.Helper()
	for patience := 20 * time.Millisecond; ; patience *= 2 {
		require.NoError(t, statement("SAVEPOINT here")(t, tx))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := tx.ExecContext(ctx, `INSERT INTO entries
			WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n) SELECT i, i FROM n`)
		cancel()
		if statement("RELEASE here")(t, tx) != nil { // the transaction has ended, and the savepoint with it
			return err
		}
	}
}
