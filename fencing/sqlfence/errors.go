// SPDX-License-Identifier: Apache-2.0

package sqlfence

import "errors"

// What errors.Is finds in an error of this package, besides [fencing.ErrStale] and [fencing.ErrInvalid]. After any of
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

	// ErrNoRow: the row that [UpdateRow] should change is not there.
	ErrNoRow = errors.New("there is no such row")
)
