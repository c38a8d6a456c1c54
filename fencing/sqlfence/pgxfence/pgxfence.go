// SPDX-License-Identifier: Apache-2.0

// Package pgxfence adapts transactions of pgx (github.com/jackc/pgx, version 5) to package sqlfence:
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if err := guard.AdmitThrough(ctx, pgxfence.Tx(tx), "ledger", hold.Token()); err != nil {
//			return err // BeginFunc rolls back
//		}
//		_, err := tx.Exec(ctx, "UPDATE ledger SET total = total + $1", amount)
//		return err
//	})
//
// The package does not import pgx: it describes the two methods that it calls, so that a program chooses its version of pgx,
// and one without pgx does not depend on it.
package pgxfence

import (
	"context"

	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

// A Transaction is a pgx.Tx. Its type arguments are inferred: Tag is pgconn.CommandTag, and Row is pgx.Row.
type Transaction[Tag any, Row sqlfence.Scanner] interface {
	Exec(ctx context.Context, sql string, arguments ...any) (Tag, error)
	QueryRow(ctx context.Context, sql string, args ...any) Row
}

// Tx returns tx in the form that [sqlfence.Guard.AdmitThrough] accepts. A pool or a connection of pgx has the same methods;
// AdmitThrough refuses these with [sqlfence.ErrNoTx]. A transaction that Begin of a pgx.Tx returned is a savepoint:
// AdmitThrough refuses it with [sqlfence.ErrInSavepoint].
func Tx[Tag any, Row sqlfence.Scanner](tx Transaction[Tag, Row]) sqlfence.Querier {
	return querier[Tag, Row]{tx}
}

type querier[Tag any, Row sqlfence.Scanner] struct{ tx Transaction[Tag, Row] }

func (q querier[Tag, Row]) Exec(ctx context.Context, query string, args ...any) error {
	_, err := q.tx.Exec(ctx, query, args...)
	return err
}

func (q querier[Tag, Row]) QueryRow(ctx context.Context, query string, args ...any) sqlfence.Scanner {
	return q.tx.QueryRow(ctx, query, args...)
}
