// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/fencetest"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

// sqlite returns the database in file. With patient, whoever finds it busy waits.
func sqlite(file, journal string, patient bool) source {
	dsn := "file:" + file + "?_pragma=journal_mode(" + journal + ")"
	if patient {
		dsn += "&_pragma=busy_timeout(60000)"
	}
	return source{driver: "sqlite", dialect: sqlfence.SQLite, dsn: dsn}
}

// empty returns a database with the fence's table and one for entries, in a folder of the test's own.
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

func TestNoTokenSlipsBetweenTheCheckAndTheWrite(t *testing.T) {
	for _, journal := range []string{"DELETE", "WAL"} {
		file := filepath.Join(t.TempDir(), "test.db")
		s := sqlite(file, journal, true)
		s.prepare(t)
		noTokenSlips(t, s, sqlite(file, journal, false))
	}
}

func TestDatabaseWithoutTheTableSaysHowToMakeIt(t *testing.T) {
	tableIsAsked(t, sqlite(filepath.Join(t.TempDir(), "test.db"), "WAL", true))
}

func TestWriteThatCommitsByItselfIsToldAndFencedAllTheSame(t *testing.T) {
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
