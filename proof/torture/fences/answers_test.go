// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"database/sql"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

// nothing is a function for Do that writes nothing.
func nothing(*sql.Tx) error { return nil }

func guardIn(t *testing.T, s source, opts *sqlfence.Options) *sqlfence.Guard {
	t.Helper()
	guard, err := sqlfence.New(s.open(t), s.dialect, opts)
	require.NoError(t, err)
	return guard
}

// requireWait requires that a token that arrives between the check and the write of another one waits. impatient is the same
// database, with connections that return an error instead of waiting.
func requireWait(t *testing.T, s, impatient source) {
	t.Helper()
	older, newer := guardIn(t, s, nil), guardIn(t, impatient, nil)
	require.NoError(t, older.Do(t.Context(), "ledger", 7, func(*sql.Tx) error {
		for _, token := range []fencing.Token{6, 8} {
			err := newer.Do(t.Context(), "ledger", token, func(*sql.Tx) error {
				require.Fail(t, "the function runs")
				return nil
			})
			require.Error(t, err)
			require.NotErrorIs(t, err, fencing.ErrStale, "the other transaction can still be rolled back")
			require.NotErrorIs(t, err, sqlfence.ErrUncertain)
		}
		return nil
	}))
	newest, err := newer.Newest(t.Context(), "ledger")
	require.NoError(t, err)
	require.EqualValues(t, 7, newest)
}

func TestTokenWaitsForTheWriteOfAnotherOnAServer(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			s := c.empty(t)
			requireWait(t, s, s.with(c.impatient))
			require.NoError(t, guardIn(t, s, nil).Do(t.Context(), "ledger", 8, func(*sql.Tx) error {
				return guardIn(t, s.with(c.impatient), nil).Do(t.Context(), "another", 1, nothing)
			}), "resources do not wait for each other")
		})
	}
}

// requireMissingTableError requires that the error of a guard without its table contains the statement that creates it, and
// that the statement can be repeated.
func requireMissingTableError(t *testing.T, s source, opts *sqlfence.Options) {
	t.Helper()
	db := s.open(t)
	guard := guardIn(t, s, opts)
	err := guard.Do(t.Context(), "ledger", 7, nothing)
	require.ErrorIs(t, err, sqlfence.ErrNoTable)
	require.ErrorContains(t, err, guard.Migration())

	for range 2 { // the second time changes nothing
		_, err = db.ExecContext(t.Context(), guard.Migration())
		require.NoError(t, err)
		require.NoError(t, guard.Do(t.Context(), "ledger", 7, nothing))
	}
	require.ErrorIs(t, guard.Do(t.Context(), "ledger", 6, nothing), fencing.ErrStale)
}

func TestMissingTableErrorNamesTheStatementThatCreatesIt(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) { requireMissingTableError(t, c.bare(t), nil) })
	}
}

func TestWriteThatTheDatabaseCannotSerializeReturnsItsError(t *testing.T) {
	for _, c := range []client{pgx, pq} {
		t.Run(c.name, func(t *testing.T) {
			s := c.empty(t)
			// Each transaction counts the rows to which the other adds: in any serial order, one would count more.
			add := func(resource string, within func()) error {
				guard := guardIn(t, s, &sqlfence.Options{Isolation: sql.LevelSerializable})
				return guard.Do(t.Context(), resource, 7, func(tx *sql.Tx) error {
					var n int
					if err := tx.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM entries").Scan(&n); err != nil {
						return err
					}
					within()
					return put(t.Context(), tx, c.dialect, resource, "counted")
				})
			}
			var second error
			first := add("one", func() { second = add("other", func() {}) })
			require.NoError(t, second)
			require.Equal(t, "40001", sqlState(first), first)
			for _, wrong := range []error{sqlfence.ErrUncertain, sqlfence.ErrTxEnded, fencing.ErrStale} {
				require.NotErrorIs(t, first, wrong)
			}
			require.NoError(t, add("one", func() {}), "the write can be retried")
		})
	}
}

func TestConstraintThatRejectsTheCommitReturnsItsError(t *testing.T) {
	for _, c := range []client{pgx, pq} {
		t.Run(c.name, func(t *testing.T) {
			s := c.empty(t)
			_, err := s.open(t).ExecContext(t.Context(),
				"CREATE TABLE pages (resource TEXT REFERENCES entries DEFERRABLE INITIALLY DEFERRED)")
			require.NoError(t, err)
			err = guardIn(t, s, nil).Do(t.Context(), "ledger", 7, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(t.Context(), "INSERT INTO pages VALUES ('of no entry')")
				return err
			})
			require.Equal(t, "23503", sqlState(err), err)
			require.NotErrorIs(t, err, sqlfence.ErrUncertain)
			require.NoError(t, guardIn(t, s, nil).Do(t.Context(), "ledger", 1, nothing), "nothing is kept")
		})
	}
}

// deadlocked makes two writers hold one fence each and update the other's row. It returns the error of Do for the writer whose
// statement failed, and for the other one. returns maps the statement's error to the function's.
func deadlocked(t *testing.T, s source, returns func(error) error) (failed, other error) {
	t.Helper()
	if s.dialect == sqlfence.PostgreSQL {
		s = s.with("deadlock_timeout=10") // milliseconds until the server checks for a deadlock
	}
	guard := guardIn(t, s, nil)
	resources := []string{"a", "b"}
	for _, resource := range resources {
		require.NoError(t, guard.Do(t.Context(), resource, 1, nothing))
	}
	var both, ended sync.WaitGroup
	var statements, outcomes [2]error
	both.Add(2)
	for i, resource := range resources {
		ended.Go(func() {
			outcomes[i] = guard.Do(t.Context(), resource, 7, func(tx *sql.Tx) error {
				both.Done()
				both.Wait()
				_, statements[i] = tx.ExecContext(t.Context(),
					dialected(s.dialect, "UPDATE lockkeeper_fence SET token = token WHERE resource = ?"), resources[1-i])
				return returns(statements[i])
			})
		})
	}
	ended.Wait()
	victim := slices.IndexFunc(statements[:], func(err error) bool { return err != nil })
	require.NotEqual(t, -1, victim, "the database found no deadlock")
	require.NoError(t, statements[1-victim])
	newest, err := guard.Newest(t.Context(), resources[victim])
	require.NoError(t, err)
	require.EqualValues(t, 1, newest, "nothing of it is kept")
	return outcomes[victim], outcomes[1-victim]
}

func TestDeadlockIsReturnedUnchangedAndNothingIsKept(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			failed, other := deadlocked(t, c.empty(t), func(err error) error { return err })
			require.NoError(t, other)
			require.Contains(t, strings.ToLower(failed.Error()), "deadlock")
			for _, wrong := range []error{sqlfence.ErrUncertain, sqlfence.ErrTxEnded, fencing.ErrStale} {
				require.NotErrorIs(t, failed, wrong)
			}
		})
	}
}

// The function must return the error of a statement. After one, PostgreSQL rolls back whatever the function returns, and the
// driver reports that at the commit. MySQL and MariaDB keep the other statements.
func TestErrorThatTheFunctionHidesIsNoSuccessInPostgreSQL(t *testing.T) {
	for _, c := range []client{pgx, pq} {
		t.Run(c.name, func(t *testing.T) {
			s := c.empty(t)
			guard := guardIn(t, s, nil)
			require.Error(t, guard.Do(t.Context(), "ledger", 7, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(t.Context(), "INSERT INTO nowhere VALUES (1)")
				require.Error(t, err)
				return nil
			}))
			newest, err := guard.Newest(t.Context(), "ledger")
			require.NoError(t, err)
			require.Zero(t, newest)
		})
	}
}

// Some statements of MariaDB end the transaction. Later statements commit by themselves, unfenced.
func TestStatementThatEndsTheTransactionIsReportedInMariaDB(t *testing.T) {
	for statement, kept := range map[string]fencing.Token{
		"CREATE TABLE more (id INT)":     7,
		"TRUNCATE TABLE pages":           7,
		"ALTER TABLE pages ADD more INT": 7,
		"START TRANSACTION":              7,
		"LOCK TABLES pages WRITE":        7,
		"COMMIT":                         7,
		"ROLLBACK":                       0,
	} {
		t.Run(statement, func(t *testing.T) {
			s := maria.empty(t)
			_, err := s.open(t).ExecContext(t.Context(), "CREATE TABLE pages (id INT)")
			require.NoError(t, err)
			guard := guardIn(t, s, nil)
			err = guard.Do(t.Context(), "ledger", 7, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(t.Context(), statement)
				return err
			})
			require.ErrorIs(t, err, sqlfence.ErrTxEnded)
			require.NotErrorIs(t, err, sqlfence.ErrUncertain)
			// Read on another connection: the statement has changed the state of this one.
			newest, err := guardIn(t, s, nil).Newest(t.Context(), "ledger")
			require.NoError(t, err)
			require.Equal(t, kept, newest)
		})
	}
}

// So do these statements of PostgreSQL, which a driver need not recognise.
func TestStatementThatEndsTheTransactionIsReportedInPostgreSQL(t *testing.T) {
	for _, c := range []client{pgx, pq} {
		for statement, kept := range map[string]fencing.Token{
			"COMMIT": 7, "COMMIT AND CHAIN": 7, "ROLLBACK": 0, "ROLLBACK AND CHAIN": 0, "COMMIT; BEGIN": 7, "ABORT": 0,
		} {
			t.Run(c.name+" "+statement, func(t *testing.T) {
				s := c.empty(t)
				err := guardIn(t, s, nil).Do(t.Context(), "ledger", 7, func(tx *sql.Tx) error {
					if _, err := tx.ExecContext(t.Context(), statement); err != nil {
						return err
					}
					return put(t.Context(), tx, s.dialect, "ledger", "unfenced")
				})
				require.ErrorIs(t, err, sqlfence.ErrTxEnded)
				require.NotErrorIs(t, err, sqlfence.ErrUncertain)
				newest, err := guardIn(t, s, nil).Newest(t.Context(), "ledger")
				require.NoError(t, err)
				require.Equal(t, kept, newest)
			})
		}
	}
}

// A deadlock ends the transaction. Later statements commit by themselves, unfenced.
func TestDeadlockThatTheFunctionHidesIsNoSuccess(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			failed, other := deadlocked(t, c.empty(t), func(error) error { return nil })
			require.NoError(t, other)
			require.Error(t, failed)
			if c.dialect == sqlfence.MySQL {
				require.ErrorIs(t, failed, sqlfence.ErrTxEnded)
			}
		})
	}
}

// The fence compares names by their bytes, whatever the character sets of the database and the connection.
func TestNamesOfAllUnicodePlanesAreDistinct(t *testing.T) {
	for _, way := range []struct {
		client
		setting string
	}{
		{pgx, ""},
		{pq, ""},
		{maria, ""},
		{maria, "interpolateParams=true"},
		{maria, "charset=utf8mb3"},
		{maria, "charset=latin1"},
		{maria, "sql_mode=%27%27"},
	} {
		t.Run(way.name+" "+way.setting, func(t *testing.T) {
			guard := guardIn(t, way.empty(t).with(way.setting), nil)
			names := []string{
				"\U0001f512", "\U0001f513", "?", "????", "\u00e9", "e\u0301", "e", "E", "\u00df", "ss", "ledger\\", "ledger'",
				"\ufb01", "fi", "\u200b", " ",
			}
			for i, name := range names {
				require.NoError(t, guard.Do(t.Context(), name, fencing.Token(len(names)-i), nothing), name)
			}
			for i, name := range names {
				newest, err := guard.Newest(t.Context(), name)
				require.NoError(t, err)
				require.EqualValues(t, len(names)-i, newest, name)
			}
		})
	}
}
