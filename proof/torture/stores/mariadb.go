// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// RunMariaDB starts a MariaDB that grants every client all privileges. It lacks the system tables, for users, time zones and so
// on, because their creation takes longer than the start of a server. The caller must Close it.
func RunMariaDB(ctx context.Context, opts *Options) (*SQL, error) {
	s, err := newMariaDB(ctx, opts.args()...)
	if err != nil {
		return nil, err
	}
	return first(ctx, s)
}

// newMariaDB returns a server that has not been started.
func newMariaDB(ctx context.Context, args ...string) (*SQL, error) {
	program, err := find("mariadbd")
	if err != nil {
		return nil, fmt.Errorf("start mariadb: %w", err)
	}
	server, err := prepared("mariadb")
	if err != nil {
		return nil, fmt.Errorf("start mariadb: %w", err)
	}
	s := &SQL{Server: server, dsn: mariaDBDSN, admin: mariaDBAdmin, create: "CREATE DATABASE "}
	// With 2, a commit is written without a wait for the disk; with 0, a kill would lose it. The doublewrite buffer is needed:
	// a kill can end a write between two pages of the kernel.
	base := []string{
		program, "--no-defaults", "--datadir=" + s.data(), "--skip-grant-tables",
		"--innodb-flush-log-at-trx-commit=2", "--innodb-log-file-size=16M", "--innodb-buffer-pool-size=32M",
		"--innodb-use-native-aio=0",
	}
	// A server that is killed before its first checkpoint does not start again. --bootstrap ends with a checkpoint.
	err = s.folder(filepath.Join(s.data(), "mysql"))
	if err == nil {
		err = s.command(ctx, append(slices.Clone(base), "--bootstrap")...)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start mariadb: %w", err), s.Close())
	}
	s.argv = slices.Concat(base, []string{
		"--bind-address=127.0.0.1", "--port=" + s.port(), "--skip-name-resolve",
		"--socket=" + filepath.Join(s.dir, "socket"), "--pid-file=" + filepath.Join(s.dir, "pid"),
	}, args)
	s.ready = func(ctx context.Context) error { return s.serves(ctx, "SELECT @@datadir") }
	return s, nil
}

// MariaDB is RunMariaDB for tests. It fails tb on error, or skips it if MariaDB is not installed, and closes the server when tb
// ends.
func MariaDB(tb testing.TB, opts *Options) *SQL {
	tb.Helper()
	s, err := RunMariaDB(tb.Context(), opts)
	return started(tb, s, err)
}

func mariaDBDSN(addr, database string) string { return "root@tcp(" + addr + ")/" + database }

// mariaDBAdmin disables the driver's log, because requests to a server that is starting fail.
func mariaDBAdmin(addr string) (*sql.DB, error) {
	config, err := mysql.ParseDSN(mariaDBDSN(addr, ""))
	if err != nil {
		return nil, err
	}
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}
