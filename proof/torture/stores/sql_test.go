// SPDX-License-Identifier: Apache-2.0

package stores_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
)

var databases = map[string]struct {
	start  func(testing.TB, *stores.Options) *stores.SQL
	driver string
	sleep  string // a statement that takes longer than any test
}{
	"PostgreSQL": {stores.Postgres, "pgx", "SELECT pg_sleep(1000)"},
	"MariaDB":    {stores.MariaDB, "mysql", "SELECT SLEEP(1000)"},
}

func connect(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func TestDatabaseKeepsWhatItCommittedWhenItsServerIsKilled(t *testing.T) {
	for name, d := range databases {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			s := d.start(t, nil)
			name, err := s.CreateDatabase(ctx)
			require.NoError(t, err)
			db := connect(t, d.driver, s.DSN(name))
			_, err = db.ExecContext(ctx, "CREATE TABLE grants (token BIGINT)")
			require.NoError(t, err)
			for i := range 3 {
				for range 10 {
					_, err = db.ExecContext(ctx, "INSERT INTO grants VALUES (1)")
					require.NoError(t, err)
				}
				// A statement in progress delays neither the end of the server nor its next start.
				asleep := make(chan error, 1)
				go func() {
					_, err := db.ExecContext(ctx, d.sleep)
					asleep <- err
				}()
				require.Eventually(t, func() bool { return db.Stats().InUse == 1 }, time.Minute, time.Millisecond)
				require.NoError(t, s.Kill(ctx))
				require.Error(t, <-asleep)
				require.NoError(t, s.Start(ctx))

				var kept int
				require.Eventually(t, func() bool { // the pool discards its broken connections one by one
					return db.QueryRowContext(ctx, "SELECT COUNT(*) FROM grants").Scan(&kept) == nil
				}, time.Minute, time.Millisecond)
				require.Equal(t, 10*(i+1), kept)
			}
		})
	}
}

func TestDatabasesOfOneServerAreIndependent(t *testing.T) {
	for name, d := range databases {
		t.Run(name, func(t *testing.T) {
			s := d.start(t, nil)
			for range 2 {
				name, err := s.CreateDatabase(t.Context())
				require.NoError(t, err)
				_, err = connect(t, d.driver, s.DSN(name)).ExecContext(t.Context(), "CREATE TABLE grants (token BIGINT)")
				require.NoError(t, err, "the database has no such table")
			}
		})
	}
}

// Every connection of PostgreSQL has its own process, and all must be stopped.
func TestPauseStopsStatementsOnOpenConnections(t *testing.T) {
	for name, d := range databases {
		t.Run(name, func(t *testing.T) {
			s := d.start(t, nil)
			name, err := s.CreateDatabase(t.Context())
			require.NoError(t, err)
			conn, err := connect(t, d.driver, s.DSN(name)).Conn(t.Context())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, conn.Close()) })
			require.NoError(t, conn.PingContext(t.Context()))

			require.NoError(t, s.Pause())
			answered := make(chan error, 1)
			go func() {
				_, err := conn.ExecContext(t.Context(), "SELECT 1")
				answered <- err
			}()
			select {
			case err := <-answered:
				require.Fail(t, "a paused server answers", "%v", err)
			case <-time.After(100 * time.Millisecond):
			}
			require.NoError(t, s.Unpause())
			require.NoError(t, <-answered)
		})
	}
}
