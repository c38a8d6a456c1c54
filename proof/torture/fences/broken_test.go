// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/fencetest"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
	"github.com/lockkeeper/lockkeeper/internal/child"
)

// A brokenGuard is a plausible but wrong replacement of a guard.
type brokenGuard string

const (
	sqlFaultless brokenGuard = "none"
	sqlSwapped   brokenGuard = "smaller instead of smaller or equal"
	sqlEquality  brokenGuard = "compares for equality"
	sqlOutside   brokenGuard = "checks outside of the transaction"
)

// brokenGuards maps each to the property that detects it.
var brokenGuards = map[brokenGuard]string{
	sqlSwapped:  "an equal token is admitted",
	sqlEquality: "a newer token is admitted and shuts out the one before",
	sqlOutside:  "of two writers racing the newer wins",
}

// A brokenTask is a guard of a client, and the data source name of its database.
type brokenTask struct {
	Guard  brokenGuard
	Driver string
	DSN    string
}

func TestGuardWithAMistakeFailsTheSuiteOnARealServer(t *testing.T) {
	for _, c := range []client{pgx, maria} {
		for made, property := range brokenGuards {
			t.Run(c.name+" "+string(made), func(t *testing.T) {
				t.Parallel()
				child.RequireFailure(t, "TestSuiteInChildProcess", property, brokenTask{made, c.driver, c.bare(t).dsn})
			})
		}
	}
}

// Without a mistake the same properties hold: the suite detects the mistake, and not the setup.
func TestGuardOfTheSameStatementsWithoutAMistakePasses(t *testing.T) {
	for _, c := range []client{pgx, maria} {
		for _, property := range brokenGuards {
			t.Run(c.name+" "+property, func(t *testing.T) {
				t.Parallel()
				out, err := child.Test(t, "TestSuiteInChildProcess", property, brokenTask{sqlFaultless, c.driver, c.bare(t).dsn})
				require.NoError(t, err, out)
				require.Contains(t, out, "--- PASS: TestSuiteInChildProcess/"+strings.ReplaceAll(property, " ", "_")+" (")
			})
		}
	}
}

// The tests above run it in a child process. With a mistake it fails.
func TestSuiteInChildProcess(t *testing.T) {
	var task brokenTask
	child.Task(t, &task)
	s := source{driver: task.Driver, dialect: sqlfence.PostgreSQL, dsn: task.DSN}
	if s.driver == "mysql" {
		s.dialect = sqlfence.MySQL
	}
	fencetest.Run(t, func(t *testing.T) fencetest.Subject {
		t.Helper()
		db := s.open(t)
		table := handwrittenTable(t, db)
		return fencetest.Subject{Open: func(*testing.T) fencetest.Guarded { return &handwritten{task.Guard, db, s.dialect, table} }}
	})
}

// handwritten stores the token in the row that it writes, with its own statements.
type handwritten struct {
	brokenGuard brokenGuard
	db          *sql.DB
	dialect     sqlfence.Dialect
	table       string
}

var handwrittenTables atomic.Int64

func handwrittenTable(t *testing.T, db *sql.DB) string {
	t.Helper()
	name := fmt.Sprintf("handwritten_%d", handwrittenTables.Add(1))
	_, err := db.ExecContext(t.Context(), "CREATE TABLE "+name+" (resource VARCHAR(512) PRIMARY KEY, token BIGINT NOT NULL, value VARCHAR(600))")
	require.NoError(t, err)
	return name
}

func (h *handwritten) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	put := map[sqlfence.Dialect]string{
		sqlfence.PostgreSQL: "INSERT INTO {table} VALUES (?, 0, '') ON CONFLICT DO NOTHING",
		sqlfence.MySQL:      "INSERT IGNORE INTO {table} VALUES (?, 0, '')",
	}
	if _, err := h.db.ExecContext(ctx, h.statement(put[h.dialect]), resource); err != nil {
		return err
	}
	tx, err := h.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // no effect after the commit
	check := tx.QueryRowContext
	lock := " FOR UPDATE"
	if h.brokenGuard == sqlOutside {
		check, lock = h.db.QueryRowContext, ""
	}
	var newest fencing.Token
	if err := check(ctx, h.statement("SELECT token FROM {table} WHERE resource = ?"+lock), resource).Scan(&newest); err != nil {
		return err
	}
	admitted := newest <= token
	switch h.brokenGuard {
	case sqlSwapped:
		admitted = newest < token
	case sqlEquality:
		admitted = newest == 0 || newest == token
	}
	if !admitted {
		return &fencing.StaleError{Token: token, Newest: newest}
	}
	_, err = tx.ExecContext(ctx, h.statement("UPDATE {table} SET value = ?, token = ? WHERE resource = ?"), value, int64(token), resource)
	if err != nil {
		return err
	}
	return tx.Commit()
}

func (h *handwritten) Value(ctx context.Context, resource string) (string, error) {
	var value string
	err := h.db.QueryRowContext(ctx, h.statement("SELECT value FROM {table} WHERE resource = ?"), resource).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return value, err
}

func (h *handwritten) Reset(context.Context, string) error { return errors.ErrUnsupported }

func (h *handwritten) statement(text string) string {
	return dialected(h.dialect, strings.ReplaceAll(text, "{table}", h.table))
}
