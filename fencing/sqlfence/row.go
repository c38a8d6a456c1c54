// SPDX-License-Identifier: Apache-2.0

package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// A Row is one row that carries its own token, for those who keep no fence table. It guards that row only: an older holder
// can still write the rows that a newer one has not reached. Update and Newest are required.
type Row struct {
	_ struct{}

	// Update is a statement that changes the row if the token in it is not newer, and leaves the writer's there:
	// UPDATE jobs SET state = $1, token = $2 WHERE id = $3 AND token <= $2.
	Update     string
	UpdateArgs []any

	// Newest is a query that returns the row's token whatever it is: SELECT token FROM jobs WHERE id = $1. It is sent
	// when Update has changed nothing, for the reason.
	Newest     string
	NewestArgs []any

	// History is the id of the ensemble's history, from Client.History of package recipes, if the row keeps that as well.
	// Update then stores it, on the condition that the row's is the same or empty (AND history IN ('', $4)), and Newest
	// returns it after the token (SELECT token, history …). Default: empty, Newest returns the token only.
	History string
}

// UpdateRow runs row.Update in a transaction of its own and returns nil when it has changed one row and is committed.
// Otherwise the error says why: a [*fencing.StaleError] when the row's token is newer than token, a [*fencing.HistoryError]
// when it is of another history, [ErrNoRow] when there
// is no row, [ErrUncertain] when the commit's answer was lost. Nothing is kept then, except perhaps after [ErrUncertain].
//
// A statement that changes several rows is taken back, with an error. So is one that changes none although the row's
// token admits it: MySQL counts no row whose values stay as they were, unless the driver asks it to count those that it
// found (clientFoundRows=true).
func UpdateRow(ctx context.Context, db *sql.DB, token fencing.Token, row Row) error {
	fail := func(err error) error {
		return fmt.Errorf("sqlfence: update a row with token %d: %w", int64(token), err)
	}
	switch {
	case db == nil:
		return fail(errors.New("the database is nil"))
	case !token.Valid():
		return fail(fencing.ErrInvalid)
	case row.Update == "" || row.Newest == "":
		return fail(errors.New("the row's Update or Newest is empty"))
	}
	if row.History != "" {
		if err := fencing.CheckHistory(row.History); err != nil {
			return fail(err)
		}
	}
	if err := nested(db, true); err != nil {
		return fail(err)
	}
	err := inTx(ctx, db, nil, func(tx *sql.Tx) error { return row.update(ctx, tx, token) })
	if err != nil {
		return fail(err)
	}
	return nil
}

func (r Row) update(ctx context.Context, tx *sql.Tx, token fencing.Token) error {
	result, err := tx.ExecContext(ctx, r.Update, r.UpdateArgs...)
	if err != nil {
		return err
	}
	changed, err := result.RowsAffected()
	if err != nil {
		return fmt.Errorf("how many rows it changed: %w", err)
	}
	if changed == 1 {
		return nil
	}
	if changed > 1 {
		return fmt.Errorf("the statement changes %d rows, want one", changed)
	}
	var newest fencing.Token
	var history string
	found := []any{&newest}
	if r.History != "" {
		found = append(found, &history)
	}
	err = tx.QueryRowContext(ctx, r.Newest, r.NewestArgs...).Scan(found...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ErrNoRow
	case err != nil:
		return fmt.Errorf("why it changed no row: %w", err)
	case history != "" && history != r.History:
		return &fencing.HistoryError{Token: token, Given: r.History, Stored: history}
	case token < newest:
		return &fencing.StaleError{Token: token, Newest: newest}
	}
	return fmt.Errorf("the statement changes no row, although the row's token is %d", int64(newest))
}
