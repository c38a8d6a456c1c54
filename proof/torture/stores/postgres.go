// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// RunPostgres starts a PostgreSQL whose superuser postgres needs no password. The caller must Close it.
func RunPostgres(ctx context.Context, opts *Options) (*SQL, error) {
	program, err := find("postgres")
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	initdb, err := find("initdb")
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	server, err := prepared("postgres")
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	s := &SQL{Server: server, dsn: postgresDSN, admin: postgresAdmin, create: "CREATE SCHEMA "}
	err = s.command(ctx, initdb, "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start postgres: %w", err), s.Close())
	}
	// Without fsync, a commit is written without a wait for the disk. full_page_writes stays on: a kill can end a write between
	// two pages of the kernel.
	s.argv = append([]string{
		program, "-D", s.data(), "-p", s.port(),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off",
	}, opts.args()...)
	s.ready = func(ctx context.Context) error { return s.serves(ctx, "SHOW data_directory") }
	return first(ctx, s)
}

// Postgres is RunPostgres for tests. It fails tb on error, or skips it if PostgreSQL is not installed, and closes the server
// when tb ends.
func Postgres(tb testing.TB, opts *Options) *SQL {
	tb.Helper()
	s, err := RunPostgres(tb.Context(), opts)
	return started(tb, s, err)
}

func postgresDSN(addr, database string) string {
	return "postgres://postgres@" + addr + "/postgres?sslmode=disable&search_path=" + database
}

func postgresAdmin(addr string) (*sql.DB, error) { return sql.Open("pgx", postgresDSN(addr, "public")) }
