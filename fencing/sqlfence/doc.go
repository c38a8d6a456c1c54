// SPDX-License-Identifier: Apache-2.0

// Package sqlfence lets a database refuse the writes of clients that no longer hold the lock: PostgreSQL, MySQL or MariaDB,
// and SQLite, through database/sql and any driver.
//
//	guard, err := sqlfence.New(db, sqlfence.PostgreSQL, &sqlfence.Options{Table: "app.lockkeeper_fence", History: history})
//	…
//	err = guard.Do(ctx, "ledger", hold.Token(), func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE ledger SET total = total + $1", amount)
//		return err
//	})
//
// Code that begins and ends its transactions itself admits the token to them: [Guard.Admit] accepts the transactions of
// database/sql, sqlx, bun, GORM and sqlc, and [Guard.AdmitThrough] pgx's with package pgxfence.
//
// # What it promises
//
// Once a write with a token has been committed through [Guard.Do] or [Guard.Admit], no write with an older token of the same
// resource is committed, by any process, before or after restarts. The fence is a row of the database, and one transaction
// raises it, holds it, writes and commits.
//
// This holds on three conditions. All clients that write the resource use the same fence: one table, and one resource name
// for one lock path. The data that they write is in the same database, in the transaction of the fence. And the database
// does not lose what it has committed (by a fail-over to a lagging replica, a restored backup, a machine that stops with
// synchronous writes turned off).
//
// # What it does not promise
//
// The limits of package fencing apply. In addition:
//
//   - An error that wraps [ErrUncertain] means that the connection or ctx ended while the commit was in progress: the whole
//     transaction was committed, or none of it. After any other error nothing was committed, as long as the function leaves
//     the end of the transaction to Do.
//   - Other effects of the function are not fenced.
//   - Writers of one resource run one at a time. Do slow work before calling Do. Only a driver that ends a statement when
//     its ctx is done bounds the wait by ctx.
//
// # The table
//
// Run the statement that [Guard.Migration] returns once. If version 1 of the package created the table, run the statement of
// [Guard.Upgrade] once, before the first process of the new version starts. A guard that finds no table, or one of version 1,
// returns [ErrNoTable] or [ErrOldTable], with the statement to run.
//
// Name the table with its schema (Options.Table; in MySQL, its database). After a SET search_path, or a USE, also by another
// user of a pooled connection, a name without a schema means another fence, in which older tokens are admitted. A guard whose
// table has no schema returns [ErrOtherTable] when the name means another table than at first on the same *sql.DB; it cannot
// detect that another process has always used another one.
//
// Resources are distinguished by their bytes; with [UpdateRow], names other than ASCII depend on client_encoding.
//
// Create the table only as the migration does, not partitioned, without reserved words in its name. A temporary table of the same
// name hides the fence on its connection, in MySQL even if Options.Table has the schema: create none. A trigger or a mode that
// changes what is written to the table makes Do and Admit fail with [ErrNotRaised], but for an AFTER trigger of PostgreSQL or
// SQLite: one that restores the token ends the promise.
//
// # Histories
//
// With Options.History the guard stores the id of the ensemble's history beside each token, and refuses tokens of another history
// with [fencing.ErrOtherHistory] until an operator calls [Guard.Reset]. A guard without the option neither checks nor changes the
// stored id: set it in all guards of a resource.
//
// # The databases
//
// Tested on PostgreSQL 15 with pgx 5 and lib/pq 1.12, on MariaDB 10.11 with go-sql-driver/mysql 1.10 (MySQL is not tested), with
// Galera 26.4, and on SQLite 3 with modernc.org/sqlite. A COMMIT or ROLLBACK that the function
// sends as a statement is reported as [ErrTxEnded]: what the function writes after it was unfenced. Detecting it costs one short
// request in PostgreSQL (10 or later), and two in the other databases.
//
//   - In MySQL, two resources that are new at the same moment may get a deadlock: nothing is committed, retry.
//   - In MySQL at repeatable read, its default, a transaction reads what was committed before its first SELECT without FOR
//     UPDATE, also of a resource that it admits later: admit all first, or set Options.Isolation to sql.LevelReadCommitted.
//   - PostgreSQL at the levels repeatable read and serializable refuses a transaction that had to wait, with 40001: nothing
//     is committed, retry.
//   - PostgreSQL reports success for a commit whose wait for synchronous standbys was cancelled. If ctx ended before the
//     reply, Do returns [ErrUncertain]. A cancellation by an operator or by statement_timeout is not reported.
//   - MySQL ends the transaction at a deadlock and at a statement that commits implicitly, such as CREATE TABLE or LOCK TABLES;
//     what the function does after that is committed immediately, unfenced. Do cannot undo it, and returns [ErrTxEnded], or the
//     function's own error. LOCK TABLES also leaves its locks on the pooled connection: do not use it. Tables of engines other
//     than InnoDB have no transactions.
//   - A commit waits for a reply that does not come as the driver decides: pgx observes ctx; lib/pq and go-sql-driver/mysql
//     wait for as long as the connection seems alive, the latter at most for its readTimeout.
//   - SQLite has one writer for the whole file. Set a busy timeout (with modernc.org/sqlite: _pragma=busy_timeout(5000)), or
//     the second writer gets an error immediately.
//   - SQLite, too, ends the transaction at some statements that fail: a write whose own ctx is done, a conflict with OR
//     ROLLBACK, a full disk. A function that continues after such an error writes unfenced. Do returns [ErrTxEnded].
//
// # Clusters in which several servers accept writes
//
//   - Galera (MariaDB, Percona XtraDB) is covered. Every raise changes the fence's row, and certification refuses the later of
//     two concurrent transactions at its COMMIT, with error 1213: nothing is committed, and a rightful holder retries. In a
//     table of version 1 a raise may change nothing: the promise begins when every process has the new version.
//   - Group replication in multi-primary mode should refuse with 3101: not tested.
//   - Not covered: replication that accepts a write on two servers and reconciles them later, such as circular asynchronous
//     replication of MySQL, and BDR, pgEdge or other logical replication between several PostgreSQL primaries. Send all writes
//     of a resource to one server.
//   - Not tested: databases that implement the protocol of one of these (CockroachDB, YugabyteDB, TiDB, Vitess).
//
// Single rows that contain their own token need no fence table: see [UpdateRow].
// examples/fences has a program that runs.
package sqlfence
