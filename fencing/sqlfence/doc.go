// SPDX-License-Identifier: Apache-2.0

// Package sqlfence lets a database refuse the writes of those who no longer hold the lock: PostgreSQL, MySQL or MariaDB,
// and SQLite, through database/sql and whatever driver you have.
//
//	guard, err := sqlfence.New(db, sqlfence.PostgreSQL, nil)
//	…
//	err = guard.Do(ctx, "ledger", hold.Token(), func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE ledger SET total = total + $1", amount)
//		return err
//	})
//
// # What it promises
//
// Once a write with a token has been committed through [Guard.Do], no write with an older token of the same resource is,
// by any process, before or after restarts. The fence is a row of the database, and one transaction raises it, holds it,
// writes and commits: a newer token waits until the older write is kept or dropped, and is not overtaken by it later.
//
// This holds on three conditions. All who write the resource go through the fence, with one resource name for one lock
// path. What they write is in the same database, through the transaction that they are given. And the database keeps what
// it has committed: where it loses commits (a fail-over to a replica that lags, a restored backup, a machine that stops
// with synchronous writes turned off), it loses the fence and the data together, and an older token can be admitted
// again, to data as old.
//
// # What it does not promise
//
//   - The first write with a newer token shuts out the older ones, not the grant of the lock. See package fencing.
//   - An error that wraps [ErrUncertain] means that the connection ended, or ctx did, while the commit was under way: all
//     of the transaction is kept, or nothing. No other error leaves anything, as long as the function leaves the end of
//     the transaction to Do, and none says stale unless a newer token was read in the database.
//   - Reads are not fenced, nor is what the function does besides: a mail that it sends is sent.
//   - Writers of one resource go one at a time. What takes long belongs before Do. To wait no longer than ctx allows
//     needs a driver that ends a statement when its ctx is done.
//
// # The databases
//
// Run the text of [Migration] once. A guard that finds no table says so with [ErrNoTable] and prints it.
//
// Tested on PostgreSQL 15 with pgx 5 and lib/pq 1.12, on MariaDB 10.11 with go-sql-driver/mysql 1.10, and on SQLite 3 with
// modernc.org/sqlite. MySQL itself is not: what is said of it here was seen on MariaDB.
//
//   - PostgreSQL and MySQL hold the fence's row, and so writers of different resources go side by side. In MySQL two that
//     are new at the same moment may be told of a deadlock: nothing is kept, try again.
//   - PostgreSQL at the levels repeatable read and serializable refuses with 40001 whoever had to wait: nothing is kept, try
//     again.
//   - A COMMIT or ROLLBACK that the function sends as a statement is told as [ErrTxEnded], and what the function writes
//     after it was unfenced. To know it costs one short request in PostgreSQL (10 or later), and two elsewhere.
//   - MySQL ends the transaction at a statement that commits by itself, such as CREATE TABLE, and at a deadlock; what the
//     function does after that is committed at once, unfenced. Do cannot take it back, and returns [ErrTxEnded]. If the
//     function returns an error besides, that is the error, and what such a statement has committed stays. Tables of other
//     engines than InnoDB know no transactions: a rollback leaves what was written to them.
//   - How long a commit waits for an answer that does not come is the driver's affair: pgx heeds ctx; lib/pq and
//     go-sql-driver/mysql wait for as long as the connection seems to live, the latter not longer than its readTimeout.
//   - SQLite has one writer for the whole file. The fence's statement is a write and the transaction's first, so that the
//     transaction begins as BEGIN IMMEDIATE would, whatever the driver says. Set a busy timeout
//     (with modernc.org/sqlite: _pragma=busy_timeout(5000)), or whoever comes second gets an error at once.
//   - SQLite, too, ends the transaction at some statements that fail: a write that is interrupted because a ctx of its own
//     is done, a conflict where OR ROLLBACK is written, a disk that is full. A function that goes on after such an error
//     writes unfenced, over what a newer holder has written meanwhile. Do returns [ErrTxEnded], and cannot take it back.
//
// Those who keep the token in the row that they write, and nothing else, can do without the table: see [UpdateRow].
package sqlfence
