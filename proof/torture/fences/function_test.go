// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

// everywhere runs the test on every database, through every driver.
func everywhere(t *testing.T, test func(t *testing.T, s source)) {
	t.Helper()
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) { test(t, c.empty(t)) })
	}
	t.Run("SQLite", func(t *testing.T) { test(t, empty(t, "WAL")) })
}

// openRows has two queries for each dialect: one with more rows than a driver reads ahead, and one with a single row.
var openRows = map[sqlfence.Dialect][]string{
	sqlfence.PostgreSQL: {"SELECT repeat('x', 1000) FROM generate_series(1, 10000)", "SELECT 1"},
	sqlfence.MySQL:      {"SELECT REPEAT('x', 1000) FROM seq_1_to_10000", "SELECT 1"},
	sqlfence.SQLite:     {"INSERT INTO entries VALUES ('a', ''), ('b', '') RETURNING value", "SELECT 1"},
}

func TestRowsThatTheFunctionLeavesOpenAreNamedAsTheCause(t *testing.T) {
	everywhere(t, func(t *testing.T, s source) {
		t.Helper()
		e := entriesIn(t, s, nil)
		for _, query := range openRows[s.dialect] {
			err := e.guard.Do(t.Context(), "ledger", 7, func(tx *sql.Tx) error {
				if err := put(t.Context(), tx, s.dialect, "ledger", "seven"); err != nil {
					return err
				}
				rows, err := tx.QueryContext(t.Context(), query)
				if err != nil {
					return err
				}
				rows.Next() // and no Close
				return rows.Err()
			})
			value, readErr := e.Value(t.Context(), "ledger")
			require.NoError(t, readErr)
			if s.dialect == sqlfence.SQLite && query == "SELECT 1" {
				require.NoError(t, err)
				require.Equal(t, "seven", value)
				continue
			}
			require.ErrorContains(t, err, "left the rows of a query open")
			require.True(t, errors.Is(err, sqlfence.ErrRowsOpen) != errors.Is(err, sqlfence.ErrUncertain), err)
			require.NotErrorIs(t, err, sqlfence.ErrTxEnded)
			require.Empty(t, value)
		}
	})
}

func TestNestedDoThatWouldWaitForItselfIsAnError(t *testing.T) {
	everywhere(t, func(t *testing.T, s source) {
		t.Helper()
		e := entriesIn(t, s, nil)
		nested := func(resource string, token fencing.Token) error {
			var inner error
			outer := e.guard.Do(t.Context(), "ledger", token, func(*sql.Tx) error {
				inner = e.guard.Do(t.Context(), resource, token+1, func(*sql.Tx) error {
					require.Fail(t, "the function runs")
					return nil
				})
				require.ErrorIs(t, e.guard.Reset(t.Context(), resource, 0), sqlfence.ErrNested)
				return nil
			})
			require.NoError(t, outer)
			return inner
		}
		err := nested("ledger", 7)
		require.ErrorIs(t, err, sqlfence.ErrNested)
		require.ErrorContains(t, err, `"ledger" with token 8`)
		require.ErrorContains(t, err, "call Admit")
		if s.dialect == sqlfence.SQLite {
			require.ErrorIs(t, nested("another", 7), sqlfence.ErrNested)
			require.NoError(t, e.guard.Do(t.Context(), "ledger", 7, func(*sql.Tx) error {
				_, err := e.guard.Newest(t.Context(), "ledger")
				require.NoError(t, err)
				require.ErrorIs(t, sqlfence.UpdateRow(t.Context(), e.db, 7, sqlfence.Row{Update: "x", Newest: "y"}), sqlfence.ErrNested)
				return nil
			}))
		}
		newest, err := e.guard.Newest(t.Context(), "ledger")
		require.NoError(t, err)
		require.EqualValues(t, 7, newest)
		require.NoError(t, e.Write(t.Context(), "ledger", 8, "eight"), "after the function a write need not wait")

		e.db.SetMaxOpenConns(1)
		require.ErrorIs(t, nested("another", 8), sqlfence.ErrNested, "the pool has no second connection")
		require.NoError(t, e.guard.Do(t.Context(), "ledger", 8, func(*sql.Tx) error {
			_, err := e.guard.Newest(t.Context(), "ledger")
			require.ErrorIs(t, err, sqlfence.ErrNested)
			return nil
		}))
	})
}

func TestWriterThatWaitsForAnotherGoroutineIsNotNested(t *testing.T) {
	everywhere(t, func(t *testing.T, s source) {
		t.Helper()
		e := entriesIn(t, s, nil)
		other := make(chan error, 1)
		require.NoError(t, e.guard.Do(t.Context(), "ledger", 7, func(*sql.Tx) error {
			begun := e.db.Stats().InUse
			go func() { other <- e.Write(t.Context(), "ledger", 8, "eight") }()
			require.Eventually(t, func() bool { return e.db.Stats().InUse > begun }, patience, tick)
			return nil
		}))
		require.NoError(t, <-other)
	})
}

// inTx runs do in a transaction that e's guard did not begin, and commits unless do fails.
func inTx(t *testing.T, e *entries, do func(ctx context.Context, tx *sql.Tx) error) error {
	t.Helper()
	tx, err := e.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	if err := do(t.Context(), tx); err != nil {
		require.NoError(t, tx.Rollback())
		return err
	}
	return tx.Commit()
}

func TestAdmitFencesTheCallersOwnTransaction(t *testing.T) {
	everywhere(t, func(t *testing.T, s source) {
		t.Helper()
		e := entriesIn(t, s, nil)
		write := func(token fencing.Token, value string) error {
			return inTx(t, e, func(ctx context.Context, tx *sql.Tx) error {
				if err := e.guard.Admit(ctx, tx, "ledger", token); err != nil {
					return err
				}
				return put(ctx, tx, s.dialect, "ledger", value)
			})
		}
		require.NoError(t, write(7, "seven"))
		require.NoError(t, write(9, "nine"))
		require.NoError(t, write(9, "nine again"))
		err := write(7, "seven, late")
		var stale *fencing.StaleError
		require.ErrorAs(t, err, &stale)
		require.Equal(t, fencing.StaleError{Token: 7, Newest: 9}, *stale)
		require.ErrorContains(t, err, `admit token 7 to "ledger"`)
		require.ErrorIs(t, e.Write(t.Context(), "ledger", 8, "eight"), fencing.ErrStale, "Do uses the same fence")

		gone := e.Write(t.Context(), "ledger", 9, "nine")
		require.NoError(t, gone)
		require.ErrorIs(t, inTx(t, e, func(ctx context.Context, tx *sql.Tx) error {
			require.NoError(t, e.guard.Admit(ctx, tx, "ledger", 11))
			return context.Canceled
		}), context.Canceled)
		newest, err := e.guard.Newest(t.Context(), "ledger")
		require.NoError(t, err)
		require.EqualValues(t, 9, newest, "the rolled back token was not admitted")
	})
}

func TestRefusedAdmitChangesNothingThoughTheCallerCommits(t *testing.T) {
	everywhere(t, func(t *testing.T, s source) {
		t.Helper()
		e := entriesIn(t, s, &sqlfence.Options{History: "old"})
		require.NoError(t, e.Write(t.Context(), "ledger", 9, "nine"))
		other := guardIn(t, s, &sqlfence.Options{History: "new"})
		require.NoError(t, inTx(t, e, func(ctx context.Context, tx *sql.Tx) error {
			require.ErrorIs(t, e.guard.Admit(ctx, tx, "ledger", 7), fencing.ErrStale)
			require.ErrorIs(t, other.Admit(ctx, tx, "ledger", 7), fencing.ErrOtherHistory)
			require.ErrorIs(t, other.Admit(ctx, tx, "ledger", 11), fencing.ErrOtherHistory)
			return nil
		}))
		newest, err := e.guard.Newest(t.Context(), "ledger")
		require.NoError(t, err)
		require.EqualValues(t, 9, newest)
		require.NoError(t, e.Write(t.Context(), "ledger", 9, "nine again"))

		// A row without a history does not adopt the history of a rejected token.
		require.NoError(t, guardIn(t, s, nil).Do(t.Context(), "page", 9, nothing))
		require.NoError(t, inTx(t, e, func(ctx context.Context, tx *sql.Tx) error {
			require.ErrorIs(t, e.guard.Admit(ctx, tx, "page", 7), fencing.ErrStale)
			return nil
		}))
		require.NoError(t, other.Do(t.Context(), "page", 9, nothing))
	})
}

func TestNewerTokenWaitsForTheTransactionOfAnAdmit(t *testing.T) {
	everywhere(t, func(t *testing.T, s source) {
		t.Helper()
		e := entriesIn(t, s, nil)
		newer := make(chan error, 1)
		require.NoError(t, inTx(t, e, func(ctx context.Context, tx *sql.Tx) error {
			require.NoError(t, e.guard.Admit(ctx, tx, "ledger", 7))
			begun := e.db.Stats().InUse
			go func() { newer <- e.Write(ctx, "ledger", 8, "eight") }()
			require.Eventually(t, func() bool { return e.db.Stats().InUse > begun }, patience, tick)
			return put(ctx, tx, s.dialect, "ledger", "seven")
		}))
		require.NoError(t, <-newer)
		value, err := e.Value(t.Context(), "ledger")
		require.NoError(t, err)
		require.Equal(t, "eight", value)
	})
}

func TestTwoResourcesAreAdmittedToOneTransaction(t *testing.T) {
	everywhere(t, func(t *testing.T, s source) {
		t.Helper()
		e := entriesIn(t, s, nil)
		both := func(ledger, page fencing.Token) error {
			return e.guard.Do(t.Context(), "ledger", ledger, func(tx *sql.Tx) error {
				return e.guard.Admit(t.Context(), tx, "page", page)
			})
		}
		require.NoError(t, both(7, 3))
		require.NoError(t, both(9, 3))
		require.ErrorIs(t, both(10, 2), fencing.ErrStale)
		require.ErrorIs(t, both(8, 4), fencing.ErrStale)
		for resource, want := range map[string]fencing.Token{"ledger": 9, "page": 3} {
			newest, err := e.guard.Newest(t.Context(), resource)
			require.NoError(t, err)
			require.Equal(t, want, newest, resource)
		}
	})
}

// Interfaces in which libraries hold a *sql.Tx, as they declare them.
type (
	connPool interface { // gorm.io/gorm.ConnPool
		PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
		ExecContext(ctx context.Context, query string, args ...interface{}) (sql.Result, error)
		QueryContext(ctx context.Context, query string, args ...interface{}) (*sql.Rows, error)
		QueryRowContext(ctx context.Context, query string, args ...interface{}) *sql.Row
	}
	dbtx interface { // of sqlc's code
		ExecContext(context.Context, string, ...interface{}) (sql.Result, error)
		PrepareContext(context.Context, string) (*sql.Stmt, error)
		QueryContext(context.Context, string, ...interface{}) (*sql.Rows, error)
		QueryRowContext(context.Context, string, ...interface{}) *sql.Row
	}
	embedded struct{ *sql.Tx } // as sqlx.Tx and bun.Tx
)

func TestAdmitAcceptsTheTransactionsOfLibraries(t *testing.T) {
	everywhere(t, func(t *testing.T, s source) {
		t.Helper()
		e := entriesIn(t, s, nil)
		require.NoError(t, inTx(t, e, func(ctx context.Context, tx *sql.Tx) error {
			require.NoError(t, e.guard.Admit(ctx, connPool(tx), "ledger", 7))
			require.NoError(t, e.guard.Admit(ctx, dbtx(tx), "page", 7))
			return e.guard.Admit(ctx, embedded{tx}, "book", 7)
		}))
		for _, resource := range []string{"ledger", "page", "book"} {
			require.ErrorIs(t, e.guard.Do(t.Context(), resource, 6, nothing), fencing.ErrStale)
		}
	})
}

// hiddenPool is a pool behind a type that does not have a pool's other methods.
type hiddenPool struct{ db *sql.DB }

func (h hiddenPool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return h.db.ExecContext(ctx, query, args...)
}

func (h hiddenPool) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return h.db.QueryRowContext(ctx, query, args...)
}

func TestAdmitOutsideATransactionIsAnError(t *testing.T) {
	everywhere(t, func(t *testing.T, s source) {
		t.Helper()
		e := entriesIn(t, s, nil)
		conn, err := e.db.Conn(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
		for _, tx := range []sqlfence.Tx{e.db, conn} {
			err := e.guard.Admit(t.Context(), tx, "ledger", 7)
			require.ErrorIs(t, err, sqlfence.ErrNoTx)
			require.ErrorContains(t, err, "call its BeginTx")
		}
		newest, err := e.guard.Newest(t.Context(), "ledger")
		require.NoError(t, err)
		require.Zero(t, newest)
	})
}

// The database shows only afterwards that there was no transaction.
func TestAdmitThroughHiddenPoolKeepsTokenAndHistory(t *testing.T) {
	for _, c := range clients { // without SQLite, which does not show it
		t.Run(c.name, func(t *testing.T) {
			s := c.empty(t)
			e := entriesIn(t, s, &sqlfence.Options{History: "first"})
			require.ErrorIs(t, e.guard.Admit(t.Context(), hiddenPool{e.db}, "ledger", 7), sqlfence.ErrNoTx)
			newest, err := e.guard.Newest(t.Context(), "ledger")
			require.NoError(t, err)
			require.EqualValues(t, 7, newest, "each statement has committed")
			require.ErrorIs(t, e.Write(t.Context(), "ledger", 6, "six"), fencing.ErrStale)
			other := entriesIn(t, s, &sqlfence.Options{History: "second"})
			require.ErrorIs(t, other.Write(t.Context(), "ledger", 8, "eight"), fencing.ErrOtherHistory)
			require.NoError(t, e.Write(t.Context(), "ledger", 7, "seven"))
		})
	}
}

func TestAdmitErrorNamesTheStatementThatCreatesTheTable(t *testing.T) {
	sources := map[string]source{"SQLite": sqlite(t.TempDir()+"/test.db", "WAL", true)}
	for _, c := range clients {
		sources[c.name] = c.bare(t)
	}
	for name, s := range sources {
		t.Run(name, func(t *testing.T) {
			db := s.open(t)
			guard, err := sqlfence.New(db, s.dialect, nil)
			require.NoError(t, err)
			require.Eventually(t, func() bool { // the query that explains the error may take no longer than a second
				tx, err := db.BeginTx(t.Context(), nil)
				require.NoError(t, err)
				defer func() { require.NoError(t, tx.Rollback()) }()
				err = guard.Admit(t.Context(), tx, "ledger", 7)
				require.Error(t, err)
				return errors.Is(err, sqlfence.ErrNoTable) && strings.Contains(err.Error(), guard.Migration())
			}, patience, tick)
		})
	}
}

// A test waits for a condition for at most patience, and checks it every tick.
const patience, tick = time.Minute, time.Millisecond
