// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/fencetest"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

// A source names a database to connect to.
type source struct {
	driver  string
	dialect sqlfence.Dialect
	dsn     string
	name    string // of the database, on the server
}

func (s source) open(tb testing.TB) *sql.DB {
	tb.Helper()
	db, err := sql.Open(s.driver, s.dsn)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, db.Close()) })
	return db
}

// subject returns the guard of the entries in s, for the suite.
func subject(s source, opts *sqlfence.Options) fencetest.Subject {
	return fencetest.Subject{
		Open: func(t *testing.T) fencetest.Guarded {
			t.Helper()
			return entriesIn(t, s, opts)
		},
		OpenHistory: func(t *testing.T, history string) fencetest.Guarded {
			t.Helper()
			named := sqlfence.Options{History: history}
			if opts != nil {
				named.Table, named.Isolation = opts.Table, opts.Isolation
			}
			return entriesIn(t, s, &named)
		},
		Uncertain: func(err error) bool { return errors.Is(err, sqlfence.ErrUncertain) },
		Crash: func(t *testing.T, _ fencetest.Guarded, resource string, token fencing.Token, value string) {
			t.Helper()
			crash(t, s, resource, token, value)
		},
	}
}

// entriesTable is a table that compares names by their bytes, in each database.
var entriesTable = map[sqlfence.Dialect]string{
	sqlfence.PostgreSQL: `CREATE TABLE entries (resource TEXT COLLATE "C" PRIMARY KEY, value TEXT)`,
	sqlfence.MySQL:      "CREATE TABLE entries (resource VARBINARY(512) PRIMARY KEY, value VARCHAR(600) CHARACTER SET utf8mb4)",
	sqlfence.SQLite:     "CREATE TABLE entries (resource TEXT PRIMARY KEY, value TEXT)",
}

// prepare creates the fence's table and one for entries.
func (s source) prepare(tb testing.TB) {
	tb.Helper()
	db := s.open(tb)
	for _, statement := range []string{sqlfence.Migration(s.dialect), entriesTable[s.dialect]} {
		_, err := db.ExecContext(tb.Context(), statement)
		require.NoError(tb, err)
	}
}

// entries is a table of values by name, behind a guard in the same database.
type entries struct {
	db      *sql.DB
	dialect sqlfence.Dialect
	guard   *sqlfence.Guard
	// hook runs between the check and the write.
	hook func()
}

func entriesIn(t *testing.T, s source, opts *sqlfence.Options) *entries {
	t.Helper()
	db := s.open(t)
	guard, err := sqlfence.New(db, s.dialect, opts)
	require.NoError(t, err)
	return &entries{db: db, dialect: s.dialect, guard: guard, hook: func() {}}
}

func (e *entries) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	return e.guard.Do(ctx, resource, token, func(tx *sql.Tx) error {
		e.hook()
		return put(ctx, tx, e.dialect, resource, value)
	})
}

// put sets the value of resource, without a check.
func put(ctx context.Context, tx *sql.Tx, dialect sqlfence.Dialect, resource, value string) error {
	if _, err := tx.ExecContext(ctx, dialected(dialect, "DELETE FROM entries WHERE resource = ?"), resource); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, dialected(dialect, "INSERT INTO entries (resource, value) VALUES (?, ?)"), resource, value)
	return err
}

// dialected replaces a statement's question marks by the placeholders of the dialect.
func dialected(dialect sqlfence.Dialect, statement string) string {
	if dialect != sqlfence.PostgreSQL {
		return statement
	}
	for n := 1; strings.Contains(statement, "?"); n++ {
		statement = strings.Replace(statement, "?", fmt.Sprintf("$%d", n), 1)
	}
	return statement
}

func (e *entries) Value(ctx context.Context, resource string) (string, error) {
	if _, err := e.guard.Newest(ctx, resource); err != nil {
		return "", err // it also checks the name
	}
	var value string
	err := e.db.QueryRowContext(ctx, dialected(e.dialect, "SELECT value FROM entries WHERE resource = ?"), resource).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return value, err
}

func (e *entries) Reset(ctx context.Context, resource string) error {
	return e.guard.Reset(ctx, resource, 0)
}
