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

// inTx runs work in a transaction of its own and commits. Whatever keeps it from the commit, a panic of work included,
// rolls back.
func inTx(ctx context.Context, db *sql.DB, opts *sql.TxOptions, work func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	committing := false
	defer func() {
		if !committing {
			_ = tx.Rollback() // after a panic; otherwise it has been done
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

// rolledBack rolls tx back because of cause, and returns that. A rollback that fails changes nothing about it: without
// a commit the database keeps nothing, and ends the transaction when it sees that the connection is gone.
func rolledBack(ctx context.Context, tx *sql.Tx, cause error) error {
	err := tx.Rollback()
	if unasked := (*unasked)(nil); errors.As(cause, &unasked) {
		return unasked.explained(err == nil)
	}
	// The end of ctx rolls back, too.
	if errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil && !errors.Is(cause, ErrTxEnded) {
		return fmt.Errorf("%w; it returned: %w", ErrTxEnded, cause)
	}
	return cause
}

// An unasked is the error of a transaction that could not be asked, before its commit, whether it still is one.
type unasked struct{ cause error }

func (u *unasked) Error() string { return u.cause.Error() }

// explained returns what it means, and whether the transaction could be rolled back afterwards.
func (u *unasked) explained(rolledBack bool) error {
	switch {
	case stateOf(u.cause) != "": // the server had an answer, and so no rows were in its way
	case rolledBack: // the connection lives, and was busy with what the rollback has ended
		return fmt.Errorf("%w: %w", ErrRowsOpen, u.cause)
	case errors.Is(u.cause, driver.ErrBadConn): // the driver says that it has sent nothing
		return fmt.Errorf("before the commit: %w: the connection is lost, or %s: %w", ErrUncertain, rowsOpen, u.cause)
	}
	return fmt.Errorf("before the commit: %w: %w", ErrUncertain, u.cause)
}

// committed says what the answer to a commit means. Before it is sent, all errors mean that nothing is kept; after that
// hardly any does. It is not known from here whether it was sent.
func committed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	// With ctx done, the transaction may as well have been rolled back for that.
	if errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil {
		return ErrTxEnded
	}
	if refused(err) {
		return fmt.Errorf("commit refused, nothing is kept: %w", err)
	}
	return fmt.Errorf("commit: %w: %w", ErrUncertain, err)
}

// refused reports whether err is a database's own statement that it did not commit: a constraint that was deferred
// until then (class 23), or a transaction rolled back (class 40; error 1213 of Galera is one) other than with its completion
// unknown (40003). Where the driver does not say, the outcome stays unknown, which is the safe side.
func refused(err error) bool {
	state := stateOf(err)
	return strings.HasPrefix(state, "23") || strings.HasPrefix(state, "40") && state != "40003"
}

// failed reports whether err is PostgreSQL's statement that the transaction has failed already, and will keep nothing.
func failed(err error) bool { return stateOf(err) == "25P02" }

// stateOf returns the SQLSTATE of err, empty if it has none. The drivers of PostgreSQL have a method for it. That of MySQL
// has a field, which no interface describes; this package imports no driver, so it looks for a field of that name and type.
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
