// SPDX-License-Identifier: Apache-2.0

// Package sqlfence lets a database refuse the writes of clients that no longer hold the lock: PostgreSQL, MySQL or MariaDB,
// and SQLite, through database/sql and whatever driver you have.
//
//	guard, err := sqlfence.New(db, sqlfence.PostgreSQL, &sqlfence.Options{Table: "app.lockkeeper_fence", History: history})
//	…
//	err = guard.Do(ctx, "ledger", hold.Token(), func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE ledger SET total = total + $1", amount)
//		return err
//	})
//
// Code that begins and ends its transactions itself admits the token to its own:
//
//	tx, err := db.BeginTx(ctx, nil)
//	…
//	if err := guard.Admit(ctx, tx, "ledger", hold.Token()); err != nil {
//		return errors.Join(err, tx.Rollback())
//	}
//
// [Guard.Admit] takes the transactions of database/sql, sqlx, bun, GORM and sqlc as they are. For pgx [Guard.AdmitThrough] takes
// an adapter of two methods, which [Querier] shows.
//
// # What it promises
//
// Once a write with a token has been committed through [Guard.Do] or [Guard.Admit], no write with an older token of the same
// resource is, by any process, before or after restarts. The fence is a row of the database, and one transaction raises it,
// holds it, writes and commits: a newer token waits until the older write is kept or dropped, and is not overtaken by it later.
//
// This holds on three conditions. All clients that write the resource go through the same fence: one table, and one resource
// name for one lock path. What they write is in the same database, in the transaction of the fence. And the database keeps
// what it has committed: where it loses commits (a fail-over to a replica that lags, a restored backup, a machine that stops
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
//   - Writers of one resource go one at a time. Slow work belongs before Do. To wait no longer than ctx allows
//     needs a driver that ends a statement when its ctx is done.
//
// # The table
//
// Run the text of [Guard.Migration] once, and that of [Guard.Upgrade] once if the table was made by version 1 of it: before the
// first process of the new version starts, while those of the old one run on. A guard that finds no table, or one of version
// 1, returns [ErrNoTable] or [ErrOldTable], with the text to run.
//
// Name the table with its schema (Options.Table; in MySQL, its database). A name alone means what the connection makes of
// it: after a SET search_path, or a USE, there is another fence, in which older tokens are admitted. A pool hands such a
// connection to the next caller, and so does PgBouncer in transaction mode, from one application to another. A guard whose
// table has no schema notices within its own process that the name means another table than at first, and returns
// [ErrOtherTable]; it cannot notice that another process has always found another one.
//
// Resources are told apart by their bytes. In MySQL they are sent as hexadecimal digits, so that no character set of a
// connection makes two resources of one, or one of two.
//
// # Histories
//
// A wiped or restored ensemble grants the same tokens again, and an equal token is admitted. With Options.History the guard keeps the id of
// the ensemble's history beside each token, adopts it with the first token that is admitted, and refuses tokens of another
// history with [fencing.ErrOtherHistory], whether they are greater or less, until an operator calls [Guard.Reset]. All
// guards of a resource should have the option: one without it neither checks nor changes the stored id.
//
// # The databases
//
// Tested on PostgreSQL 15 with pgx 5 and lib/pq 1.12, on MariaDB 10.11 with go-sql-driver/mysql 1.10, on a cluster of two
// MariaDB nodes with Galera 26.4, and on SQLite 3 with modernc.org/sqlite. MySQL itself is not tested: what is stated of it
// here was seen on MariaDB.
//
//   - PostgreSQL and MySQL hold the fence's row, and so writers of different resources go side by side. In MySQL two that
//     are new at the same moment may get a deadlock: nothing is kept, try again.
//   - PostgreSQL at the levels repeatable read and serializable refuses with 40001 a transaction that had to wait: nothing is
//     kept, try again.
//   - A COMMIT or ROLLBACK that the function sends as a statement is reported as [ErrTxEnded], and what the function writes
//     after it was unfenced. To know it costs one short request in PostgreSQL (10 or later), and two elsewhere.
//   - MySQL ends the transaction at a statement that commits by itself, such as CREATE TABLE, and at a deadlock; what the
//     function does after that is committed immediately, unfenced. Do cannot take it back, and returns [ErrTxEnded]. If the
//     function returns an error besides, that is the error, and what such a statement has committed stays. Tables of other
//     engines than InnoDB know no transactions: a rollback leaves what was written to them.
//   - How long a commit waits for an answer that does not come is up to the driver: pgx heeds ctx; lib/pq and
//     go-sql-driver/mysql wait for as long as the connection seems to live, the latter not longer than its readTimeout.
//   - SQLite has one writer for the whole file. The fence's statement is a write and the transaction's first, so that the
//     transaction begins as BEGIN IMMEDIATE would, whatever the driver says. Set a busy timeout
//     (with modernc.org/sqlite: _pragma=busy_timeout(5000)), or the second writer gets an error immediately.
//   - SQLite, too, ends the transaction at some statements that fail: a write that is interrupted because a ctx of its own
//     is done, a conflict where OR ROLLBACK is written, a disk that is full. A function that goes on after such an error
//     writes unfenced, over what a newer holder has written meanwhile. Do returns [ErrTxEnded], and cannot take it back.
//
// # Clusters in which several servers take writes
//
//   - Galera (MariaDB, Percona XtraDB) is covered. Every raise changes the fence's row, and of two transactions that changed
//     one row without knowing of each other, certification refuses the later one at its COMMIT, with error 1213: nothing is
//     kept, and Do says so. A rightful holder tries again. In a table of version 1 a raise may change nothing, which nothing
//     certifies: the promise begins when every process has the new version.
//   - Group replication in multi-primary mode certifies in the same way, and refuses with 3101. It is not tested.
//   - Not covered: replication that accepts a write on two servers and reconciles them later, such as circular
//     asynchronous replication of MySQL, and BDR, pgEdge or other logical replication between several PostgreSQL primaries.
//     Each server has a fence of its own there. Send all writes of a resource to one server.
//   - Databases that only speak the protocol of one of these (CockroachDB, YugabyteDB, TiDB, Vitess) are not tested.
//
// Rows that carry their own token, and nothing else that is guarded, can do without the table: see [UpdateRow].
package sqlfence
