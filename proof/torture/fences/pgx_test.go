// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"testing"

	pgx5 "github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence/pgxfence"
)

// A pgxLedger is code of an application on pgx, which begins and ends its transactions itself.
type pgxLedger struct {
	pool  *pgxpool.Pool
	guard *sqlfence.Guard
}

func (l *pgxLedger) put(ctx context.Context, token fencing.Token, value string) error {
	return pgx5.BeginFunc(ctx, l.pool, func(tx pgx5.Tx) error {
		if err := l.guard.AdmitThrough(ctx, pgxfence.Tx(tx), "ledger", token); err != nil {
			return err // BeginFunc rolls back
		}
		_, err := tx.Exec(ctx, "INSERT INTO entries VALUES ('ledger', $1) ON CONFLICT (resource) DO UPDATE SET value = $1", value)
		return err
	})
}

func TestPgxTransactionIsFencedThroughAnAdapterOfTwoMethods(t *testing.T) {
	for _, mode := range []string{"", "default_query_exec_mode=exec", "default_query_exec_mode=simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			s := pgx.empty(t).with(mode)
			pool, err := pgxpool.New(t.Context(), s.dsn)
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			db := stdlib.OpenDBFromPool(pool)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			guard, err := sqlfence.New(db, sqlfence.PostgreSQL, &sqlfence.Options{History: "id"})
			require.NoError(t, err)
			ledger := &pgxLedger{pool, guard}

			require.NoError(t, ledger.put(t.Context(), 7, "seven"))
			require.NoError(t, ledger.put(t.Context(), 9, "nine"))
			var stale *fencing.StaleError
			require.ErrorAs(t, ledger.put(t.Context(), 7, "seven, late"), &stale)
			require.Equal(t, fencing.StaleError{Token: 7, Newest: 9}, *stale)
			other := &pgxLedger{pool, guardIn(t, s, &sqlfence.Options{History: "another"})}
			require.ErrorIs(t, other.put(t.Context(), 10, "ten"), fencing.ErrOtherHistory)
			require.ErrorIs(t, guard.Do(t.Context(), "ledger", 8, nothing), fencing.ErrStale)
			value, err := entriesIn(t, s, nil).Value(t.Context(), "ledger")
			require.NoError(t, err)
			require.Equal(t, "nine", value)
		})
	}
}

func TestPgxPoolIsNotTakenForATransaction(t *testing.T) {
	s := pgx.empty(t)
	pool, err := pgxpool.New(t.Context(), s.dsn)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	err = guardIn(t, s, nil).AdmitThrough(t.Context(), pgxfence.Tx(pool), "ledger", 7)
	require.ErrorIs(t, err, sqlfence.ErrNoTx)
	require.ErrorContains(t, err, `admit token 7 to "ledger"`)
}
