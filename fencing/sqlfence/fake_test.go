// SPDX-License-Identifier: Apache-2.0

package sqlfence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

// A fake is a database with one resource, whose failures the test controls. It produces what real databases cannot be made
// to do; the torture module tests the guards on real ones.
type fake struct {
	newest   int64 // token of the fence's row; zero is no row
	affected int64 // number of rows that a statement of the function changes
	history  string
	place    string // the table that the name means
	noTable  bool
	oldTable bool
	fails    map[string]error // by step

	mu    sync.Mutex
	steps []string // guarded by mu
}

var errNoSuchTable = errors.New("fake: no such table")

func (f *fake) open(t *testing.T) *sql.DB {
	t.Helper()
	db := sql.OpenDB(f)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// step records a request to the database, and returns its error.
func (f *fake) step(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps = append(f.steps, name)
	return f.fails[name]
}

// moves makes the name of the table mean another table.
func (f *fake) moves(place string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.place = place
}

// recorded returns the steps so far, in one line.
func (f *fake) recorded() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.steps, " ")
}

func (f *fake) Connect(context.Context) (driver.Conn, error) { return fakeConn{f}, nil }
func (f *fake) Driver() driver.Driver                        { return nil }

type fakeConn struct{ *fake }

func (c fakeConn) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("fake: prepare: unsupported")
}
func (c fakeConn) Close() error              { return nil }
func (c fakeConn) Begin() (driver.Tx, error) { return c, c.step("begin") }
func (c fakeConn) Commit() error             { return c.step("commit") }
func (c fakeConn) Rollback() error           { return c.step("rollback") }

func (c fakeConn) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	name := "write"
	switch {
	case strings.Contains(query, "ON "):
		name = "raise"
	case strings.HasPrefix(query, "SAVEPOINT "):
		name = "mark"
	case strings.HasPrefix(query, "RELEASE "):
		name = "release"
	}
	if err := c.step(name); err != nil {
		return nil, err
	}
	if name == "raise" && c.noTable {
		return nil, errNoSuchTable
	}
	return driver.RowsAffected(c.affected), nil
}

func (c fakeConn) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	name, found := "read", []driver.Value{c.newest}
	switch {
	case query == "SELECT 1":
		name, found = "alive?", []driver.Value{int64(1)}
	case strings.HasPrefix(query, "SELECT 1 "), strings.HasPrefix(query, "SELECT CASE "):
		name, found = "table?", []driver.Value{int64(sqlfence.MigrationVersion)}
		switch {
		case c.noTable:
			found = nil
		case c.oldTable:
			found = []driver.Value{int64(1)}
		}
	case strings.HasPrefix(query, "INSERT"):
		name, found = "raise", c.row(max(c.newest, args[1].Value.(int64)))
	case strings.HasPrefix(query, "SELECT token, history FROM jobs"):
		found = c.row(c.newest)[:2]
	case strings.Contains(query, "FOR UPDATE"):
		found = c.row(c.newest)
	case strings.Contains(query, "txid_current_if_assigned"):
		name, found = "same?", []driver.Value{int64(fakeNumber)}
	}
	if err := c.step(name); err != nil {
		return nil, err
	}
	if c.noTable && name != "table?" {
		return nil, errNoSuchTable
	}
	return &fakeRows{found}, nil
}

// row returns the fence's row.
func (f *fake) row(newest int64) []driver.Value {
	f.mu.Lock()
	defer f.mu.Unlock()
	return []driver.Value{newest, f.history, int64(fakeNumber), f.place, true}
}

// fakeNumber is the number of every transaction.
const fakeNumber = 4711

// fakeRows contains one row, or none if it has no values or the first is zero, which stands for a fence without a row.
type fakeRows struct{ values []driver.Value }

func (r *fakeRows) Columns() []string { return make([]string, max(1, len(r.values))) }
func (r *fakeRows) Close() error      { return nil }

func (r *fakeRows) Next(row []driver.Value) error {
	if len(r.values) == 0 || r.values[0] == int64(0) {
		return io.EOF
	}
	copy(row, r.values)
	r.values = nil
	return nil
}
