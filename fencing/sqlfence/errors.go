// SPDX-License-Identifier: Apache-2.0

package sqlfence

import "errors"

// Errors of this package, for errors.Is, besides [fencing.ErrStale], [fencing.ErrOtherHistory] and [fencing.ErrInvalid].
// After any of them but ErrUncertain, ErrTxEnded and ErrNoTx the database is as it was before the call.
var (
	// ErrUncertain: the reply to the commit was lost, or was not waited for, or the connection was lost in a state in which
	// it is not known whether a commit was sent. The whole transaction was committed, or none of it. Read before you write
	// again, or write only what may be written twice; the same token is admitted in either case.
	ErrUncertain = errors.New("the outcome is unknown: the whole transaction was committed, or none of it")

	// ErrTxEnded: the function committed or rolled back its transaction, which only Do may do, or sent a statement that did.
	// What was committed remains, and was fenced; what the function wrote after that was not. If ctx is done, Do returns the
	// error of ctx instead.
	ErrTxEnded = errors.New("the function ended the transaction itself")

	// ErrNoTable: the database has no fence table. The error's text ends with the migration to run.
	ErrNoTable = errors.New("fence table not found")

	// ErrOldTable: the fence table was created by an earlier version of this package. The error's text ends with the
	// migration to run.
	ErrOldTable = errors.New("the fence table was created by an earlier version")

	// ErrOtherTable: the fence table's name has no schema, and means another table on this connection than before. See
	// Options.Table.
	ErrOtherTable = errors.New("the name of the fence table means another table")

	// ErrNotRaised: the database reported no error, but the fence's row does not contain the token that was written to it.
	// Something changes what is written, for example a trigger. No token is admitted until it is removed.
	ErrNotRaised = errors.New("the fence was not raised")

	// ErrInSavepoint: Admit was called after a savepoint of the transaction, so that a rollback to the savepoint would give
	// up the fence, and the transaction could still be committed. Only PostgreSQL shows this.
	ErrInSavepoint = errors.New("the transaction has a savepoint, whose rollback would give up the fence")

	// ErrNested: the function of a Do called Do, Reset or Newest on the same database, and that call would wait for the
	// function's own transaction.
	ErrNested = errors.New("nested call, which would wait for the transaction of the enclosing Do: " +
		"to write another resource in the same transaction, call Admit with it; otherwise call after Do has returned")

	// ErrRowsOpen: the function returned without closing the rows of a query, so that the connection could not execute the
	// commit. Some drivers then close the connection, and Do cannot distinguish that from a lost connection: the error wraps
	// ErrUncertain instead, and names both causes. SQLite commits with the open rows of a SELECT.
	ErrRowsOpen = errors.New(rowsOpen)

	// ErrNoTx: the argument of Admit is not a transaction. Unless its type shows this, as *sql.DB and *sql.Conn do, the
	// database shows it after the fence was raised, and each statement outside a transaction commits immediately: the fence
	// then has the token, if it is newer, and the guard's history, if it had none.
	ErrNoTx = errors.New("not in a transaction")

	// ErrNoRow: the row that [UpdateRow] should change does not exist.
	ErrNoRow = errors.New("row not found")
)

const rowsOpen = "the function left the rows of a query open: close them before it returns"
