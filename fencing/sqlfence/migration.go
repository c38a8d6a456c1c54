// SPDX-License-Identifier: Apache-2.0

package sqlfence

import "fmt"

// MigrationVersion is the version of the table that this package works with. A change of the table increments it, and
// [Upgrade] then upgrades a table of each earlier version. Version 2 added the columns history and, with MySQL, raised.
const MigrationVersion = 2

// DefaultTable is the fence's table unless [Options] name another.
const DefaultTable = "lockkeeper_fence"

// Migration returns the statement that creates the fence's table, [DefaultTable], after a comment that names the version.
// Include it in the migrations of the application, which run it once, as a role that may create tables. Run again, it
// changes nothing; nor does it change a table of an earlier version: see [Upgrade]. For an unknown dialect it returns the
// empty string. For a table with another name, see [Guard.Migration].
func Migration(dialect Dialect) string {
	if !dialect.valid() {
		return ""
	}
	return migration(dialect, dialect.statements(DefaultTable).migration)
}

// Upgrade returns the statement that brings a table of version 1, [DefaultTable], to [MigrationVersion]. Run it before the
// first process of this version starts: processes of the version before work with the new table, and processes of this version
// return [ErrOldTable] without it. No token is lost. Run again, it changes nothing in PostgreSQL and MariaDB, and fails
// without a change in MySQL and SQLite. For an unknown dialect it returns the empty string.
func Upgrade(dialect Dialect) string {
	if !dialect.valid() {
		return ""
	}
	return migration(dialect, dialect.statements(DefaultTable).upgrade)
}

// Migration is [Migration] for the guard's own table.
func (g *Guard) Migration() string { return migration(g.dialect, g.sql.migration) }

// Upgrade is [Upgrade] for the guard's own table.
func (g *Guard) Upgrade() string { return migration(g.dialect, g.sql.upgrade) }

func migration(dialect Dialect, statement string) string {
	return fmt.Sprintf("-- lockkeeper sqlfence, %v, version %d\n%s\n", dialect, MigrationVersion, statement)
}
