// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"database/sql"
	"testing"

	pgx5 "github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence/pgxfence"
)

// begin begins a transaction, and rolls it back when the test ends.
func begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() }) // a no-op if the transaction has ended
	return tx
}

// A rollback to the savepoint would give up the fence, and the transaction could still be committed.
func TestAdmitAfterASavepointIsRefused(t *testing.T) {
	for _, c := range []client{pgx, pq} {
		t.Run(c.name, func(t *testing.T) {
			e := entriesIn(t, c.empty(t), nil)
			for _, newest := range []string{"no row", "a row"} {
				tx := begin(t, e.db)
				exec := func(statement string) {
					_, err := tx.ExecContext(t.Context(), statement)
					require.NoError(t, err)
				}
				exec("SAVEPOINT nested")
				err := e.guard.Admit(t.Context(), tx, "ledger", 9)
				require.ErrorIs(t, err, sqlfence.ErrInSavepoint, newest)
				require.ErrorContains(t, err, `admit token 9 to "ledger"`)
				exec("ROLLBACK TO SAVEPOINT nested")
				exec("RELEASE SAVEPOINT nested")
				require.NoError(t, e.guard.Admit(t.Context(), tx, "ledger", 9))
				exec("SAVEPOINT nested")
				exec("INSERT INTO entries VALUES ('" + newest + "', 'nine')")
				exec("RELEASE SAVEPOINT nested")
				require.NoError(t, tx.Commit(), "savepoints after the Admit do no harm")
			}
		})
	}
}

func TestNestedTransactionOfPgxIsRefused(t *testing.T) {
	s := pgx.empty(t)
	conn, err := pgx5.Connect(t.Context(), s.dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) })
	guard := guardIn(t, s, nil)
	require.NoError(t, pgx5.BeginFunc(t.Context(), conn, func(tx pgx5.Tx) error {
		require.ErrorIs(t, pgx5.BeginFunc(t.Context(), tx, func(nested pgx5.Tx) error {
			return guard.AdmitThrough(t.Context(), pgxfence.Tx(nested), "ledger", 9)
		}), sqlfence.ErrInSavepoint)
		return nil
	}))
	newest, err := guard.Newest(t.Context(), "ledger")
	require.NoError(t, err)
	require.Zero(t, newest)
}
