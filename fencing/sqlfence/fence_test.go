// SPDX-License-Identifier: Apache-2.0

package sqlfence_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

var dialects = []sqlfence.Dialect{sqlfence.PostgreSQL, sqlfence.MySQL, sqlfence.SQLite}

func TestOtherHistoryIsRefusedWhateverTheToken(t *testing.T) {
	for _, dialect := range dialects {
		for _, newest := range []int64{6, 7, 8} {
			f := &fake{newest: newest, history: "before"}
			guard, err := sqlfence.New(f.open(t), dialect, &sqlfence.Options{History: "after"})
			require.NoError(t, err)
			err = guard.Do(t.Context(), "ledger", 7, never(t))
			var other *fencing.HistoryError
			require.ErrorAs(t, err, &other)
			require.Equal(t, fencing.HistoryError{Token: 7, Given: "after", Stored: "before"}, *other)
			require.NotErrorIs(t, err, fencing.ErrStale)
			require.True(t, strings.HasSuffix(f.recorded(), " rollback"), f.recorded())
		}
	}
}

func TestGuardWithoutHistoryIgnoresStoredHistory(t *testing.T) {
	for _, dialect := range dialects {
		f := &fake{newest: 7, history: "before"}
		require.NoError(t, guardOf(t, f.open(t), dialect).Do(t.Context(), "ledger", 7, put))
	}
}

func TestNewRefusesInvalidHistory(t *testing.T) {
	_, err := sqlfence.New((&fake{}).open(t), sqlfence.SQLite, &sqlfence.Options{History: "a b"})
	require.ErrorContains(t, err, `sqlfence: new guard: the history id "a b" contains the character ' '`)
}

func TestTableOfEarlierVersionIsReportedWithItsUpgrade(t *testing.T) {
	for _, dialect := range dialects {
		f := &fake{oldTable: true, fails: map[string]error{"raise": errNoSuchTable}}
		guard, err := sqlfence.New(f.open(t), dialect, &sqlfence.Options{Table: "app.fence"})
		require.NoError(t, err)
		err = guard.Do(t.Context(), "ledger", 7, never(t))
		require.ErrorIs(t, err, sqlfence.ErrOldTable)
		require.ErrorIs(t, err, errNoSuchTable)
		require.ErrorContains(t, err, guard.Upgrade())
		require.Contains(t, guard.Upgrade(), "ALTER TABLE app.fence")
		require.Equal(t, strings.ReplaceAll(guard.Upgrade(), "app.fence", sqlfence.DefaultTable), sqlfence.Upgrade(dialect))
	}
	require.Empty(t, sqlfence.Upgrade(0))
}

func TestNameThatMeansAnotherTableIsReported(t *testing.T) {
	for _, table := range []string{"", "app.fence"} {
		f := &fake{newest: 7, place: "here"}
		db := f.open(t)
		guard, err := sqlfence.New(db, sqlfence.PostgreSQL, &sqlfence.Options{Table: table})
		require.NoError(t, err)
		require.NoError(t, guard.Do(t.Context(), "ledger", 7, put))
		f.moves("there")
		guard, err = sqlfence.New(db, sqlfence.PostgreSQL, &sqlfence.Options{Table: table}) // as a server does for each request
		require.NoError(t, err)
		err = guard.Do(t.Context(), "ledger", 7, put)
		if table != "" {
			require.NoError(t, err, "a table named with its schema may be recreated")
			continue
		}
		require.ErrorIs(t, err, sqlfence.ErrOtherTable)
		require.ErrorContains(t, err, "here")
		require.ErrorContains(t, err, "there")
		f.moves("here")
		require.NoError(t, guard.Do(t.Context(), "ledger", 7, put))
	}
}

// A mysqlError has the form of the errors of MySQL's driver.
type mysqlError struct {
	Number   uint16
	SQLState [5]byte
}

func (e *mysqlError) Error() string { return fmt.Sprint("fake: ", e.Number) }

func TestCommitRefusedByMySQLIsNotUncertain(t *testing.T) {
	for _, c := range []struct {
		err       mysqlError
		uncertain bool
	}{
		{mysqlError{1213, [5]byte([]byte("40001"))}, false}, // Galera's certification
		{mysqlError{3101, [5]byte([]byte("40000"))}, false}, // group replication's
		{mysqlError{1180, [5]byte([]byte("HY000"))}, true},
		{mysqlError{1053, [5]byte{}}, true},
	} {
		f := &fake{newest: 7, fails: map[string]error{"commit": &c.err}}
		err := guardOf(t, f.open(t), sqlfence.MySQL).Do(t.Context(), "ledger", 7, put)
		require.ErrorIs(t, err, &c.err)
		require.Equal(t, c.uncertain, errors.Is(err, sqlfence.ErrUncertain), c.err)
	}
}

// fakeTx begins a transaction and rolls it back at the end of the test.
func fakeTx(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() }) // a no-op if the transaction has ended
	return tx
}

func TestAdmitLeavesTransactionOpen(t *testing.T) {
	for dialect, steps := range map[sqlfence.Dialect]string{
		sqlfence.PostgreSQL: "begin raise same?",
		sqlfence.MySQL:      "begin mark raise read release",
		sqlfence.SQLite:     "begin raise",
	} {
		for newest, refused := range map[int64]error{7: nil, 8: fencing.ErrStale} {
			f := &fake{newest: newest}
			db := f.open(t)
			require.ErrorIs(t, guardOf(t, db, dialect).Admit(t.Context(), fakeTx(t, db), "ledger", 7), refused)
			require.Equal(t, steps, f.recorded(), dialect)
		}
	}
}

func TestAdmitRefusesInvalidArgumentsWithoutStatement(t *testing.T) {
	f := &fake{newest: 7}
	db := f.open(t)
	guard, tx := guardOf(t, db, sqlfence.SQLite), fakeTx(t, db)
	require.ErrorContains(t, guard.Admit(t.Context(), nil, "ledger", 7), "the transaction is nil")
	require.ErrorContains(t, guard.AdmitThrough(t.Context(), nil, "ledger", 7), "the transaction is nil")
	require.ErrorIs(t, guard.Admit(t.Context(), tx, "ledger", 0), fencing.ErrInvalid)
	require.ErrorContains(t, guard.Admit(t.Context(), tx, "", 7), "name is empty")
	require.ErrorIs(t, guard.Admit(t.Context(), db, "ledger", 7), sqlfence.ErrNoTx)
	require.Equal(t, "begin", f.recorded())
}
