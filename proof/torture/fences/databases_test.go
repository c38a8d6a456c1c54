// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"strings"
	"testing"

	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
)

// The servers of these tests. TestMain closes them.
var (
	postgres = stores.Shared{Run: stores.RunPostgres}
	mariadb  = stores.Shared{Run: stores.RunMariaDB}
)

// A client is a driver with one of the servers.
type client struct {
	name    string
	server  *stores.Shared
	driver  string
	dialect sqlfence.Dialect
	// impatient is the setting of a connection on which a statement fails instead of waiting for a lock.
	impatient string
}

var (
	pgx   = client{"PostgreSQL", &postgres, "pgx", sqlfence.PostgreSQL, "lock_timeout=1"}
	pq    = client{"PostgreSQL by pq", &postgres, "postgres", sqlfence.PostgreSQL, "lock_timeout=1"}
	maria = client{"MariaDB", &mariadb, "mysql", sqlfence.MySQL, "innodb_lock_wait_timeout=0"}

	clients = []client{pgx, pq, maria}
)

// empty returns a new database with the fence's table and one for entries.
func (c client) empty(tb testing.TB) source {
	tb.Helper()
	s := c.bare(tb)
	s.prepare(tb)
	return s
}

// bare returns a new, empty database.
func (c client) bare(tb testing.TB) source {
	tb.Helper()
	server := c.server.Server(tb)
	name, err := server.CreateDatabase(tb.Context())
	require.NoError(tb, err)
	return source{driver: c.driver, dialect: c.dialect, dsn: server.DSN(name), name: name}
}

// with returns the same database for connections with a setting.
func (s source) with(setting string) source {
	if setting == "" {
		return s
	}
	separator := "?"
	if strings.Contains(s.dsn, "?") {
		separator = "&"
	}
	s.dsn += separator + setting
	return s
}

// through returns the same database at another address, such as a proxy's.
func (c client) through(t *testing.T, s source, addr string) source {
	t.Helper()
	s.dsn = c.server.Server(t).DSNThrough(addr, s.name)
	return s
}
