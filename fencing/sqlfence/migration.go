// SPDX-License-Identifier: Apache-2.0

package sqlfence

import "fmt"

// MigrationVersion is the version of the table that this package works with. A change of the table raises it, and
// [Migration] then leads there from each earlier version as well.
const MigrationVersion = 1

// DefaultTable is the fence's table where [Options] name none.
const DefaultTable = "lockkeeper_fence"

// Migration returns the statement that makes the fence's table, [DefaultTable], with a comment in front that names the
// version: for the migrations of the application, which run it once, as a role that may. Run again, it changes nothing.
// For an unknown dialect it returns the empty text. For a table with a name of your own, see [Guard.Migration].
func Migration(dialect Dialect) string {
	if !dialect.valid() {
		return ""
	}
	return migration(dialect, DefaultTable)
}

// Migration is [Migration] for the guard's own table.
func (g *Guard) Migration() string { return migration(g.dialect, g.table) }

func migration(dialect Dialect, table string) string {
	return fmt.Sprintf("-- lockkeeper sqlfence, %v, version %d\n%s\n",
		dialect, MigrationVersion, dialect.statements(table).migration)
}
