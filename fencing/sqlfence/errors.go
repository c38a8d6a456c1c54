// SPDX-License-Identifier: Apache-2.0

package sqlfence

import "errors"

// Errors of this package, for errors.Is, besides [fencing.ErrStale], [fencing.ErrOtherHistory] and [fencing.ErrInvalid].
// After any of them but ErrUncertain and ErrTxEnded the database is as it was before the call.
var (
	// ErrUncertain: the commit was sent and its reply was lost. The whole transaction was committed, or none of it. Read
	// before you write again, or write only what may be written twice; the same token is admitted in either case.
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

	// ErrNested: the function of a Do called Do, Reset or Newest on the same database, and that call would wait for the
	// function's own transaction.
	ErrNested = errors.New("nested call, which would wait for the transaction of the enclosing Do: " +
		"to write another resource in the same transaction, call Admit with it; otherwise call after Do has returned")

	// ErrRowsOpen: the function returned without closing the rows of a query, so that the connection could not execute the
	// commit. Some drivers then close the connection, and Do cannot distinguish that from a lost connection: the error wraps
	// ErrUncertain instead, and names both causes. SQLite commits with the open rows of a SELECT.
	ErrRowsOpen = errors.New(rowsOpen)

	// ErrNoTx: the argument of Admit is not a transaction.
	ErrNoTx = errors.New("not in a transaction")

	// ErrNoRow: the row that [UpdateRow] should change does not exist.
	ErrNoRow = errors.New("row not found")
)

const rowsOpen = "the function left the rows of a query open: close them before it returns"
