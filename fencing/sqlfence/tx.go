// SPDX-License-Identifier: Apache-2.0

package sqlfence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// inTx runs work in its own transaction and commits it. If anything prevents the commit, a panic of work included, inTx
// rolls back.
func inTx(ctx context.Context, db *sql.DB, opts *sql.TxOptions, work func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	committing := false
	defer func() {
		if !committing {
			_ = tx.Rollback() // after a panic; otherwise a no-op
		}
	}()
	if err := work(tx); err != nil {
		return rolledBack(ctx, tx, err)
	}
	if err := ctx.Err(); err != nil {
		return rolledBack(ctx, tx, err)
	}
	committing = true
	return committed(ctx, tx.Commit())
}

// rolledBack rolls tx back because of cause, and returns cause, or what it means after the rollback. A rollback that fails
// does not change the result: without a commit the database keeps nothing, and ends the transaction when it detects that the
// connection is lost.
func rolledBack(ctx context.Context, tx *sql.Tx, cause error) error {
	err := tx.Rollback()
	if unverified := (*unverified)(nil); errors.As(cause, &unverified) {
		return unverified.explained(err == nil)
	}
	// The end of ctx also rolls back.
	if errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil && !errors.Is(cause, ErrTxEnded) {
		return fmt.Errorf("%w; it returned: %w", ErrTxEnded, cause)
	}
	return cause
}

// An unverified is the error of a transaction whose state could not be queried before its commit.
type unverified struct{ cause error }

func (u *unverified) Error() string { return u.cause.Error() }

// explained returns the meaning of u, given whether the transaction could be rolled back afterwards.
func (u *unverified) explained(rolledBack bool) error {
	switch {
	case timedOut(u.cause):
		return fmt.Errorf("before the commit was sent, nothing was committed: %w", u.cause)
	case stateOf(u.cause) != "": // the server replied, so no open rows prevented that
	case rolledBack: // the connection is alive, and was busy until the rollback
		return fmt.Errorf("%w: %w", ErrRowsOpen, u.cause)
	case errors.Is(u.cause, driver.ErrBadConn): // the driver reports that it has sent nothing
		return fmt.Errorf("before the commit was sent: %w: the connection is lost, or %s: %w", ErrUncertain, rowsOpen, u.cause)
	}
	return fmt.Errorf("before the commit was sent: %w: %w", ErrUncertain, u.cause)
}

// committed returns the meaning of the result of a commit. Before the commit is sent, every error means that nothing is
// committed; after that, hardly any error does. Whether it was sent is not known here.
//
// A nil err is no proof that a synchronous standby has the commit: PostgreSQL reports success for a commit whose wait for
// its standbys was cancelled, and lib/pq cancels it when ctx ends.
func committed(ctx context.Context, err error) error {
	if err == nil {
		if ctx.Err() != nil {
			return fmt.Errorf("commit: %w: ctx ended while the commit was in progress, which can cancel its wait for synchronous "+
				"standbys: %w", ErrUncertain, context.Cause(ctx))
		}
		return nil
	}
	// If ctx is done, the transaction may have been rolled back for that reason.
	if errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil {
		return ErrTxEnded
	}
	if refused(err) {
		return fmt.Errorf("commit refused, nothing was committed: %w", err)
	}
	return fmt.Errorf("commit: %w: %w", ErrUncertain, err)
}

// refused reports whether err is the database's report that it did not commit: a deferred constraint (class 23), or a
// transaction rolled back (class 40; error 1213 of Galera is one) except with its completion unknown (40003), or a
// transaction that a time-out ended before. If the driver reports no state, the outcome stays unknown, which is safe.
func refused(err error) bool {
	state := stateOf(err)
	return strings.HasPrefix(state, "23") || strings.HasPrefix(state, "40") && state != "40003" || timedOut(err)
}

// timedOut reports whether err is PostgreSQL's report that it ended the open transaction because of
// idle_in_transaction_session_timeout or transaction_timeout, without a commit.
func timedOut(err error) bool {
	state := stateOf(err)
	return state == "25P03" || state == "25P04"
}

// failed reports whether err is PostgreSQL's report that the transaction has already failed, and will commit nothing.
func failed(err error) bool { return stateOf(err) == "25P02" }

// stateOf returns the SQLSTATE of err, empty if it has none. The errors of PostgreSQL's drivers have a method for it. Those
// of MySQL's driver have a field, which no interface describes; this package imports no driver, so stateOf looks for a field
// of that name and type.
func stateOf(err error) string {
	var answer interface{ SQLState() string }
	if errors.As(err, &answer) {
		return answer.SQLState()
	}
	for ; err != nil; err = errors.Unwrap(err) {
		value := reflect.ValueOf(err)
		if value.Kind() == reflect.Pointer {
			value = value.Elem()
		}
		if value.Kind() != reflect.Struct {
			continue
		}
		if field := value.FieldByName("SQLState"); field.IsValid() && field.CanInterface() {
			if state, ok := field.Interface().([5]byte); ok && state != [5]byte{} {
				return string(state[:])
			}
		}
	}
	return ""
}
