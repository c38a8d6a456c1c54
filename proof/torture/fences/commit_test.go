// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
)

// No standby ever confirms a commit of this server. lib/pq has the server cancel the wait when ctx ends, and the server then
// reports success.
func TestCommitThatNoStandbyConfirmedIsUncertain(t *testing.T) {
	server := stores.Postgres(t, &stores.Options{Args: []string{"-c", "synchronous_standby_names=none", "-c", "synchronous_commit=local"}})
	for _, c := range []client{pgx, pq} {
		t.Run(c.name, func(t *testing.T) {
			name, err := server.CreateDatabase(t.Context())
			require.NoError(t, err)
			s := source{driver: c.driver, dialect: c.dialect, dsn: server.DSN(name), name: name}
			s.prepare(t)
			admin := s.open(t)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { // cancels while the commit waits
				defer cancel()
				const commits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query ILIKE 'commit%' AND datname = current_database()"
				for waiting := 0; waiting == 0; {
					err := admin.QueryRowContext(t.Context(), commits).Scan(&waiting)
					if err != nil {
						ended <- err
						return
					}
				}
				ended <- nil
			}()
			err = guardIn(t, s.with("synchronous_commit=on"), nil).Do(ctx, "ledger", 9, nothing)
			require.NoError(t, <-ended)
			require.ErrorIs(t, err, sqlfence.ErrUncertain)
			require.ErrorIs(t, err, context.Canceled)
		})
	}
}

// The database rolls back a transaction that is idle for too long, before anything sends a commit.
func TestIdleTimeoutBeforeTheCommitIsNotUncertain(t *testing.T) {
	for _, c := range []client{pgx, pq} {
		t.Run(c.name, func(t *testing.T) {
			s := c.empty(t)
			admin := s.open(t)
			err := guardIn(t, s, nil).Do(t.Context(), "ledger", 9, func(tx *sql.Tx) error {
				var pid int
				if err := tx.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
					return err
				}
				if _, err := tx.ExecContext(t.Context(), "SET LOCAL idle_in_transaction_session_timeout = 50"); err != nil {
					return err
				}
				for alive := 1; alive == 1; {
					err := admin.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid).Scan(&alive)
					if err != nil {
						return err
					}
				}
				return nil
			})
			require.ErrorContains(t, err, "before the commit was sent")
			if c.name == pq.name && sqlState(err) == "" {
				return // the driver reads no reply after its write has failed
			}
			require.NotErrorIs(t, err, sqlfence.ErrUncertain)
			require.Equal(t, "25P03", sqlState(err), err)
			require.ErrorContains(t, err, "nothing was committed")
		})
	}
}
