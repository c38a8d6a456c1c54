// SPDX-License-Identifier: Apache-2.0

package sqlfence

import "errors"

// What errors.Is finds in an error of this package, besides [fencing.ErrStale], [fencing.ErrOtherHistory] and
// [fencing.ErrInvalid]. After any of
// them but ErrUncertain and ErrTxEnded the database is as it was before the call.
var (
	// ErrUncertain: the commit was sent and its answer is not known. All of the transaction is kept, or nothing. Read
	// before you write again, or write what may be written twice; the same token is admitted in either case.
	ErrUncertain = errors.New("the outcome is unknown: all of the transaction is kept, or nothing")

	// ErrTxEnded: the function committed or rolled back the transaction that it was given, which is for Do to do, or
	// had a statement do it. What was committed is kept, and was fenced; what it wrote after that was not. When ctx is
	// done, that is the error instead.
	ErrTxEnded = errors.New("the function ended the transaction itself")

	// ErrNoTable: the database has no fence table. The error's text ends with the migration to run.
	ErrNoTable = errors.New("there is no fence table")

	// ErrOldTable: the fence table is of an earlier version of this package. The error's text ends with the migration to run.
	ErrOldTable = errors.New("the fence table is of an earlier version")

	// ErrOtherTable: the fence table's name has no schema, and means another table on this connection than before. See
	// Options.Table.
	ErrOtherTable = errors.New("the name of the fence table means another table")

	// ErrNested: the function of a Do called Do, Reset or Newest on the same database, and that would wait for the
	// transaction of the function.
	ErrNested = errors.New("called by the function of a Do, it would wait for that function's transaction: " +
		"to write another resource in the same transaction, call Admit with it; otherwise call after Do has returned")

	// ErrRowsOpen: the function returned without closing the rows of a query, so that the connection could not be asked to
	// commit. Drivers that close the connection over that leave it open whether it was lost: the error wraps ErrUncertain
	// instead, and names both causes. SQLite commits with the open rows of a SELECT.
	ErrRowsOpen = errors.New(rowsOpen)

	// ErrNoTx: what Admit was given is not a transaction.
	ErrNoTx = errors.New("not in a transaction")

	// ErrNoRow: the row that [UpdateRow] should change is not there.
	ErrNoRow = errors.New("there is no such row")
)

const rowsOpen = "the function left the rows of a query open: close them before it returns"
