// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"database/sql"
	"errors"
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
}

func (s source) open(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open(s.driver, s.dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// subject is the guard of the entries in s.
func subject(s source) fencetest.Subject {
	return fencetest.Subject{
		Open: func(t *testing.T) fencetest.Guarded {
			t.Helper()
			return entriesIn(t, s)
		},
		Crash: func(t *testing.T, _ fencetest.Guarded, resource string, token fencing.Token, value string) {
			t.Helper()
			crash(t, s, resource, token, value)
		},
	}
}

// Entries are a table of values by name, behind a guard in the same database.
type entries struct {
	db    *sql.DB
	guard *sqlfence.Guard
	// hook runs between the check and the write.
	hook func()
}

func entriesIn(t *testing.T, s source) *entries {
	t.Helper()
	db := s.open(t)
	guard, err := sqlfence.New(db, s.dialect, nil)
	require.NoError(t, err)
	return &entries{db: db, guard: guard, hook: func() {}}
}

func (e *entries) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	return e.guard.Do(ctx, resource, token, func(tx *sql.Tx) error {
		e.hook()
		if _, err := tx.ExecContext(ctx, "DELETE FROM entries WHERE resource = $1", resource); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO entries (resource, value) VALUES ($1, $2)", resource, value)
		return err
	})
}

func (e *entries) Value(ctx context.Context, resource string) (string, error) {
	if _, err := e.guard.Newest(ctx, resource); err != nil {
		return "", err // for what it says of the name
	}
	var value string
	err := e.db.QueryRowContext(ctx, "SELECT value FROM entries WHERE resource = $1", resource).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return value, err
}

func (e *entries) Reset(ctx context.Context, resource string) error {
	return e.guard.Reset(ctx, resource, 0)
}
