// SPDX-License-Identifier: Apache-2.0

package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// explainBound bounds the search of [Guard.Admit] for the reason of a failure. The caller's transaction may occupy the last
// connection of the pool.
const explainBound = time.Second

// Admit admits token to resource in the caller's own transaction. It returns nil if tx now holds the fence of resource:
// until tx ends, no other token is admitted, and if tx commits, all that it writes is fenced as by [Guard.Do]. Admit waits
// for the transaction of another token, as Do does.
//
// Admit must be the first statement of tx, so that the transaction reads what the previous holder has written, and so that
// SQLite makes it a writer from the beginning. A second resource may be admitted to the same transaction; with MySQL, before
// the first SELECT, or at the level read committed: see the package comment.
//
// Admit must not follow a savepoint, that is, not be called in a nested transaction of GORM, bun or pgx. A rollback to the
// savepoint would give up the fence, while the outer transaction could still be committed: over the write of a newer token.
// In PostgreSQL Admit refuses this with [ErrInSavepoint]; MySQL and SQLite do not show it.
//
// After an error the caller must roll back. A refused token has changed nothing, but tx remains open and would commit
// without the fence. The errors are as in Do: a [*fencing.StaleError], a [*fencing.HistoryError], [ErrNoTable] and so on.
//
// The caller ends tx, and is responsible for what Do does at that point: tx must still be the transaction of the Admit when
// it is committed (see [ErrTxEnded]), and an error of its commit means that the outcome is unknown unless the database
// reports otherwise; with lib/pq and synchronous replication so does a commit during which the ctx of its BeginTx ended,
// although it reports success. If tx is not a transaction, Admit returns [ErrNoTx]; it detects a wrapper that hides a *sql.DB
// in PostgreSQL and MySQL, after the token was admitted, and not in SQLite.
func (g *Guard) Admit(ctx context.Context, tx Tx, resource string, token fencing.Token) error {
	switch pool := tx.(type) {
	case nil:
		return admitError(resource, token, errors.New("the transaction is nil"))
	case interface{ Stats() sql.DBStats }, interface{ Raw(f func(any) error) error }:
		return admitError(resource, token, fmt.Errorf("%w: a %T is not a transaction: call its BeginTx, and pass the result", ErrNoTx, pool))
	}
	return g.AdmitThrough(ctx, standard{tx}, resource, token)
}

// AdmitThrough is [Guard.Admit] for a transaction that is not one of database/sql. The guard still needs a *sql.DB of the
// same database; for pgx, OpenDBFromPool of its package stdlib returns one.
func (g *Guard) AdmitThrough(ctx context.Context, tx Querier, resource string, token fencing.Token) error {
	err := checkArguments(resource, token)
	if err == nil && tx == nil {
		err = errors.New("the transaction is nil")
	}
	if err == nil {
		err = g.admit(ctx, tx, resource, token)
	}
	if err != nil {
		return admitError(resource, token, err)
	}
	return nil
}

func admitError(resource string, token fencing.Token, err error) error {
	return fmt.Errorf("sqlfence: admit token %d to %.512q: %w", int64(token), resource, err)
}

func (g *Guard) admit(ctx context.Context, tx Querier, resource string, token fencing.Token) error {
	marked := g.sql.admitMark != ""
	if marked {
		if err := tx.Exec(ctx, g.sql.admitMark); err != nil {
			return fmt.Errorf("mark the transaction: %w", err)
		}
	}
	f, err := g.raise(ctx, tx, resource, token)
	if err != nil {
		return g.explainIn(ctx, tx, fmt.Errorf("raise the fence: %w", err))
	}
	switch {
	case marked:
		err = tx.Exec(ctx, g.sql.admitRelease)
		if stateOf(err) == "42000" { // there is no such savepoint
			err = fmt.Errorf("%w: %w", ErrNoTx, err)
		}
	case g.sql.number != "":
		var now int64
		err = tx.QueryRow(ctx, g.sql.number).Scan(&now)
		if err == nil && now != f.number {
			err = ErrNoTx
		}
	}
	if err != nil {
		return fmt.Errorf("check the transaction after raising the fence: %w", err)
	}
	return g.verdict(f, token)
}

// explainIn is explain for the caller's transaction.
func (g *Guard) explainIn(ctx context.Context, tx Querier, err error) error {
	if g.dialect != PostgreSQL {
		return g.explain(ctx, tx, err)
	}
	// In PostgreSQL, the transaction has failed with err.
	ctx, cancel := context.WithTimeout(ctx, explainBound)
	defer cancel()
	return g.explain(ctx, standard{g.db}, err)
}
