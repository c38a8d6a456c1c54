// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite"

	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

// open opens the database and creates its tables and jobs, unless another process has done so.
func open(ctx context.Context, file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	for _, statement := range []string{
		sqlfence.Migration(sqlfence.SQLite),
		"CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, done_by TEXT, token INTEGER)",
		`WITH RECURSIVE n(id) AS (VALUES(1) UNION ALL SELECT id + 1 FROM n WHERE id < 10000)
			INSERT OR IGNORE INTO jobs (id) SELECT id FROM n`,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(fmt.Errorf("prepare %s: %w", file, err), db.Close())
		}
	}
	return db, nil
}

// next returns the first job that is not done, and sql.ErrNoRows if all are.
func (w *worker) next(ctx context.Context) (job int, err error) {
	err = w.db.QueryRowContext(ctx, "SELECT id FROM jobs WHERE done_by IS NULL ORDER BY id LIMIT 1").Scan(&job)
	if err != nil {
		err = fmt.Errorf("next job: %w", err)
	}
	return job, err
}

// doneBy returns the name of the worker that finished a job, for the log.
func (w *worker) doneBy(job int) string {
	var name sql.NullString
	if err := w.db.QueryRow("SELECT done_by FROM jobs WHERE id = ?", job).Scan(&name); err != nil {
		return err.Error()
	}
	return cmp.Or(name.String, "none")
}
