// SPDX-License-Identifier: Apache-2.0

// Worker is a leader-only worker on SQLite: one of several processes works through a table of jobs, and each of its writes
// is fenced. This command freezes the leader in the middle of a job and shows that its stale write is rejected:
//
//	go run ./worker -freeze
//
// worker.go is the whole worker; a program calls run from its main function. database.go has the table of jobs. main.go and
// package demo are not part of the example: they start several workers and freeze one of them.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// run campaigns under a name until ctx is done, and works through the jobs in the database file during each term.
func run(ctx context.Context, name string, servers []string, timeout time.Duration, file string) error {
	db, err := open(ctx, file)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	guard, err := sqlfence.New(db, sqlfence.SQLite, nil)
	if err != nil {
		return err
	}
	client, err := recipes.Connect(ctx, servers, &recipes.Options{SessionTimeout: timeout, Owner: name})
	if err != nil {
		return err
	}
	defer client.Close()
	e, err := election.New(client, "/election/worker", nil)
	if err != nil {
		return err
	}
	w := &worker{name: name, db: db, guard: guard}
	return e.Run(ctx, w.work)
}

// A worker works through the jobs while it leads.
type worker struct {
	name  string
	db    *sql.DB
	guard *sqlfence.Guard
}

// work is one term. ctx is done when the term is lost or the process ends.
func (w *worker) work(ctx context.Context, term *election.Term) error {
	slog.Info("leading", "token", term.Token())
	for ctx.Err() == nil {
		job, err := w.next(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			continue
		}
		if err != nil {
			return err
		}
		slog.Info("started", "job", job)
		process(job)
		if err := w.finish(ctx, term.Token(), job); err != nil {
			return err // if the term was lost, Run campaigns again
		}
	}
	return context.Cause(ctx)
}

// process represents the work on a job. Like much real work, it does not check ctx until it has finished.
func process(int) { time.Sleep(400 * time.Millisecond) }

// finish records that a job is done, unless a newer leader has written. The process may have been paused since it last
// checked ctx, so only the check in the database's transaction decides. The end of the term does not cancel a write that
// has begun: the guard decides about that write, too.
func (w *worker) finish(ctx context.Context, token fencing.Token, job int) error {
	ctx = context.WithoutCancel(ctx)
	err := w.guard.Do(ctx, "jobs", token, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE jobs SET done_by = ?, token = ? WHERE id = ?", w.name, token, job)
		return err
	}) // *fencing.StaleError if a newer token was admitted before: then nothing is written
	var stale *fencing.StaleError
	switch {
	case errors.As(err, &stale):
		slog.Warn("stale write rejected", "job", job, "token", stale.Token, "newest", stale.Newest, "done_by", w.doneBy(job))
		return err
	case err != nil:
		return fmt.Errorf("finish job %d: %w", job, err)
	}
	slog.Info("written", "job", job, "token", token)
	return nil
}
