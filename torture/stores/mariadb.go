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

// RunMariaDB starts a MariaDB in which everybody may do everything. It has none of its own tables, for users, time zones
// and the like, which take longer to make than a server takes to start. The caller must Close it.
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
	// With 2, a commit is written and not waited for; with 0, a kill would lose it. The doublewrite buffer stays: a kill
	// can end a write between two pages of the kernel's.
	base := []string{
		program, "--no-defaults", "--datadir=" + s.data(), "--skip-grant-tables",
		"--innodb-flush-log-at-trx-commit=2", "--innodb-log-file-size=16M", "--innodb-buffer-pool-size=32M",
		"--innodb-use-native-aio=0",
	}
	// One that is killed before its first checkpoint does not start again: --bootstrap ends with one.
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

// MariaDB is RunMariaDB for tests: it fails tb on error, or skips it where there is no MariaDB, and closes the server when
// tb ends.
func MariaDB(tb testing.TB, opts *Options) *SQL {
	tb.Helper()
	s, err := RunMariaDB(tb.Context(), opts)
	return started(tb, s, err)
}

func mariaDBDSN(addr, database string) string { return "root@tcp(" + addr + ")/" + database }

// mariaDBAdmin does without the driver's log: while a server starts, it is asked before it can answer.
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
