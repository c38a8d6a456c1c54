// SPDX-License-Identifier: Apache-2.0

package sqlfence

import (
	"context"
	"database/sql"
)

// A Tx is a transaction of database/sql. *sql.Tx implements it, and so do *sqlx.Tx, the Tx of bun.Tx, the
// Statement.ConnPool of a *gorm.DB in a transaction, and the argument of WithTx in code that sqlc generates.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// A Querier is a transaction that is not one of database/sql, for [Guard.AdmitThrough]. Package pgxfence returns one for a
// transaction of pgx.
type Querier interface {
	Exec(ctx context.Context, query string, args ...any) error
	QueryRow(ctx context.Context, query string, args ...any) Scanner
}

// A Scanner is the only row of a query, or the query's error, which wraps [sql.ErrNoRows] if there is no row.
type Scanner interface {
	Scan(dest ...any) error
}

// standard adapts a Tx to a Querier.
type standard struct{ tx Tx }

func (s standard) Exec(ctx context.Context, query string, args ...any) error {
	_, err := s.tx.ExecContext(ctx, query, args...)
	return err
}

func (s standard) QueryRow(ctx context.Context, query string, args ...any) Scanner {
	return s.tx.QueryRowContext(ctx, query, args...)
}
