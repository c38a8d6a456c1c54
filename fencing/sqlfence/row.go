// SPDX-License-Identifier: Apache-2.0

package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// A Row is one row that contains its own token, for applications without a fence table. It guards that row only: an older
// holder can still write the rows that a newer holder has not written yet. Update and Newest are required.
type Row struct {
	_ struct{}

	// Update is a statement that changes the row if its token is not newer, and stores the writer's token in it: UPDATE jobs
	// SET state = $1, token = $2 WHERE id = $3 AND token <= $2.
	Update     string
	UpdateArgs []any

	// Newest is a query that returns the row's token whatever it is: SELECT token FROM jobs WHERE id = $1. UpdateRow sends
	// it to find the reason if Update has changed nothing.
	Newest     string
	NewestArgs []any

	// History is the id of the ensemble's history, from Client.History of package recipes, if the row contains that as well.
	// Update then stores it, on the condition that the row's history is the same or empty (AND history IN ('', $4)), and
	// Newest returns it after the token (SELECT token, history …). Default: empty, Newest returns the token only.
	History string
}

// UpdateRow runs row.Update in a transaction of its own and returns nil if it has changed one row and is committed.
// Otherwise the error is a [*fencing.StaleError] if the row's token is newer than token, a [*fencing.HistoryError] if it is
// of another history, [ErrNoRow] if there is no row, and [ErrUncertain] if the reply to the commit was lost. Nothing is
// committed in these cases, except perhaps after [ErrUncertain].
//
// A statement that changes several rows is rolled back, with an error. So is a statement that changes none although the
// row's token admits it: MySQL does not count a row whose values stay the same, unless the driver asks it to count the rows
// that it found (clientFoundRows=true).
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
		return fmt.Errorf("count the changed rows: %w", err)
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
		return fmt.Errorf("no row changed: read the row's token: %w", err)
	case history != "" && history != r.History:
		return &fencing.HistoryError{Token: token, Given: r.History, Stored: history}
	case token < newest:
		return &fencing.StaleError{Token: token, Newest: newest}
	}
	return fmt.Errorf("the statement changes no row, although the row's token is %d", int64(newest))
}
