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
)

// A fake is a database with one resource, whose failures are at the test's command. It is for what a real one cannot be
// made to do: the guards on real ones are tested in the docker module.
type fake struct {
	newest   int64 // the fence's row; zero is none
	affected int64 // rows that a statement of the user changes
	noTable  bool
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

// step notes what the database was asked for, and returns how it goes.
func (f *fake) step(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps = append(f.steps, name)
	return f.fails[name]
}

// asked returns the steps so far, in one line.
func (f *fake) asked() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.steps, " ")
}

func (f *fake) Connect(context.Context) (driver.Conn, error) { return fakeConn{f}, nil }
func (f *fake) Driver() driver.Driver                        { return nil }

type fakeConn struct{ *fake }

func (c fakeConn) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("fake: prepares nothing")
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
	name, found := "read", c.newest
	switch {
	case query == "SELECT 1":
		name, found = "alive?", 1
	case strings.HasPrefix(query, "SELECT 1 "):
		name, found = "table?", 1
		if c.noTable {
			found = 0
		}
	case strings.HasPrefix(query, "INSERT"):
		name, found = "raise", max(c.newest, args[1].Value.(int64))
	case strings.Contains(query, "txid_current_if_assigned"):
		name, found = "same?", fakeNumber
	}
	if err := c.step(name); err != nil {
		return nil, err
	}
	if c.noTable && name != "table?" {
		return nil, errNoSuchTable
	}
	if name == "raise" && strings.Contains(query, "txid_current()") {
		return &fakeRows{found, []string{"token", "number"}}, nil
	}
	return &fakeRows{found, []string{"token"}}, nil
}

// fakeNumber is the number of every transaction.
const fakeNumber = 4711

// One row with one number, and that of the transaction where there is room for it, or no row where it is zero.
type fakeRows struct {
	number  int64
	columns []string
}

func (r *fakeRows) Columns() []string { return r.columns }
func (r *fakeRows) Close() error      { return nil }

func (r *fakeRows) Next(row []driver.Value) error {
	if r.number == 0 {
		return io.EOF
	}
	row[len(row)-1] = int64(fakeNumber)
	row[0], r.number = r.number, 0
	return nil
}
