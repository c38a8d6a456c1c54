// SPDX-License-Identifier: Apache-2.0

// Worker is a leader-only worker on SQLite: of several processes one works off a table of jobs, and each of its writes
// is fenced. See what happens when it is frozen in the middle of a job:
//
//	go run ./worker -freeze
//
// work, below, is what such a worker looks like. All else puts it on a stage.
package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/examples/internal/demo"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func main() {
	demo.Main("A leader works off jobs in SQLite; its writes carry its token, and the database checks it.", play)
}

func play(ctx context.Context, p *demo.Player) error {
	db, err := open(ctx, filepath.Join(p.Dir, "jobs.db"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	guard, err := sqlfence.New(db, sqlfence.SQLite, nil)
	if err != nil {
		return err
	}
	client, err := recipes.Connect(ctx, p.Servers, &recipes.Options{SessionTimeout: demo.Timeout})
	if err != nil {
		return err
	}
	defer client.Close()
	e, err := election.New(client, "/election/worker", &election.Options{ID: p.Name})
	if err != nil {
		return err
	}
	w := &worker{db: db, guard: guard, player: p}
	return e.Run(ctx, w.work)
}

// A worker works off the jobs while it leads.
type worker struct {
	db     *sql.DB
	guard  *sqlfence.Guard
	player *demo.Player
}

// work is one term. It ends with ctx: when the term is lost, or the process ends.
func (w *worker) work(ctx context.Context, term *election.Term) error {
	w.player.Leads("leads with token %d", term.Token())
	for {
		job, err := w.next(ctx)
		if err != nil {
			return err
		}
		if err := w.toil(ctx, job); err != nil {
			return err
		}
		// What ctx says is of the past: the process may have stood still since. The database has the last word. And a
		// write that has begun is not given up because the term ends meanwhile.
		err = w.guard.Do(context.WithoutCancel(ctx), "jobs", term.Token(), func(tx *sql.Tx) error {
			_, err := tx.Exec("UPDATE jobs SET done_by = ?, token = ? WHERE id = ?", w.player.Name, term.Token(), job)
			return err
		})
		var stale *fencing.StaleError
		switch {
		case errors.As(err, &stale):
			w.player.Refused("writes job %d with token %d: refused, %d has been admitted; it stays done by %s",
				job, stale.Token, stale.Newest, w.doneBy(job))
			return err // Run takes it for the loss of the term, if it was lost
		case err != nil:
			return fmt.Errorf("job %d: %w", job, err)
		}
		w.player.Wrote("writes job %d with token %d: admitted", job, term.Token())
	}
}

// toil stands for the work on a job. That it was told to stop is seen at its beginning only, as in much real work.
func (w *worker) toil(ctx context.Context, job int) error {
	if err := ctx.Err(); err != nil {
		w.player.Say("stops: %v", context.Cause(ctx))
		return err
	}
	w.player.Begins("begins job %d", job)
	time.Sleep(400 * time.Millisecond)
	return nil
}

// next is the first job that is not done.
func (w *worker) next(ctx context.Context) (job int, err error) {
	err = w.db.QueryRowContext(ctx, "SELECT min(id) FROM jobs WHERE done_by IS NULL").Scan(&job)
	if err != nil {
		err = fmt.Errorf("next job: %w", err)
	}
	return job, err
}

// doneBy is what the database says of a job.
func (w *worker) doneBy(job int) string {
	var name sql.NullString
	if err := w.db.QueryRow("SELECT done_by FROM jobs WHERE id = ?", job).Scan(&name); err != nil {
		return err.Error()
	}
	return cmp.Or(name.String, "nobody")
}

// open makes the database, or finds it made by another player.
func open(ctx context.Context, file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
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
