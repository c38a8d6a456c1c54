// SPDX-License-Identifier: Apache-2.0

package sqlfence

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// A Dialect names a database, and so the form of its statements, and how one of them raises the fence and holds its row. The
// zero value names none.
type Dialect int

const (
	PostgreSQL Dialect = iota + 1
	MySQL              // and MariaDB
	SQLite             // 3.35 or later
)

// String returns the database's name.
func (d Dialect) String() string {
	switch d {
	case PostgreSQL:
		return "PostgreSQL"
	case MySQL:
		return "MySQL"
	case SQLite:
		return "SQLite"
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

func (d Dialect) valid() bool { return d >= PostgreSQL && d <= SQLite }

// statements are the SQL of a guard. {table} is the guard's table as its Options name it, {name} and {schema} are the parts
// of that name; none of them needs quotes.
type statements struct {
	// raise inserts a row, or raises the existing row, and holds it until the transaction ends. A token that is older or of
	// another history leaves the row's values unchanged. raise is the first statement of the transaction, and a write: this
	// has the effect of BEGIN IMMEDIATE in SQLite, which otherwise lets two transactions read and then refuses one of them
	// the write. set is like raise, but always sets the token and the history.
	//
	// If held is empty, both return the row: its token and its history, the number of the transaction, the table that the
	// name means on this connection, and whether the row ends with the transaction, and not with a savepoint, as far as the
	// database shows that. Otherwise held returns the row after them. In MySQL, held has to be a locking read: a plain one
	// would read the transaction's snapshot.
	raise, set, held string
	// mark and release enclose the function, where its statements can end the transaction silently: MySQL commits at a
	// statement such as CREATE TABLE and rolls back at a deadlock, SQLite rolls back at an interrupted write, and both
	// commit each later statement by itself. The savepoint ends with the transaction, so release fails.
	mark, release string
	back          string // rolls back to mark; only for SQLite
	// admitMark and admitRelease enclose an Admit, which a function may call. MySQL needs them, because it ignores a
	// savepoint outside a transaction, and drops the first of two savepoints with the same name.
	admitMark, admitRelease string
	// number returns the number of the transaction, if it has written. PostgreSQL has such a number, so no savepoint is
	// needed to detect a COMMIT that was sent as a statement, which drivers need not notice.
	number string
	// newest returns the newest token and takes no lock.
	newest string
	// version returns the version of the table, or no row if there is no table.
	version string
	// migration creates the table, and upgrade brings a table of version 1 to the version of the migration.
	migration, upgrade string
}

// pgName returns the expression for the name of a resource, or for the id of a history, that argument contains as
// hexadecimal digits. PostgreSQL converts text from the client_encoding, which any function of the application can change on
// a pooled connection: the same name would then be another row.
func pgName(argument string) string { return "convert_from(decode(" + argument + ", 'hex'), 'UTF8')" }

// pgRow is the row that PostgreSQL returns. The xmin of a row that was changed after a savepoint is not the transaction's
// number, but the savepoint's. Casts of xid to numbers need PostgreSQL 13, hence the text.
const pgRow = "token, history, txid_current(), tableoid::text, xmin::text = (txid_current() % 4294967296)::text"

func (d Dialect) statements(table string) statements {
	s := map[Dialect]statements{
		PostgreSQL: {
			raise: "INSERT INTO {table} AS f (resource, token, history) VALUES (" + pgName("$1") + ", $2, " + pgName("$3") + ") ON CONFLICT (resource) DO UPDATE SET " +
				"token = CASE WHEN f.history IN ('', EXCLUDED.history) OR EXCLUDED.history = '' " +
				"THEN GREATEST(f.token, EXCLUDED.token) ELSE f.token END, " +
				"history = CASE WHEN f.history = '' AND f.token <= EXCLUDED.token THEN EXCLUDED.history ELSE f.history END " +
				"RETURNING " + pgRow,
			set: "INSERT INTO {table} AS f (resource, token, history) VALUES (" + pgName("$1") + ", $2, " + pgName("$3") + ") ON CONFLICT (resource) DO UPDATE SET " +
				"token = EXCLUDED.token, history = EXCLUDED.history RETURNING " + pgRow,
			number: "SELECT coalesce(txid_current_if_assigned(), 0)",
			newest: "SELECT token FROM {table} WHERE resource = " + pgName("$1"),
			version: "SELECT CASE WHEN EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('{table}') " +
				"AND attname = 'history' AND NOT attisdropped) THEN 2 ELSE 1 END WHERE to_regclass('{table}') IS NOT NULL",
			// Text in the collation C compares bytes, whatever the collation of the database.
			migration: `CREATE TABLE IF NOT EXISTS {table} (
	resource TEXT COLLATE "C" PRIMARY KEY,
	token BIGINT NOT NULL CHECK (token >= 0),
	history TEXT COLLATE "C" NOT NULL DEFAULT ''
);`,
			upgrade: `ALTER TABLE {table} ADD COLUMN IF NOT EXISTS history TEXT COLLATE "C" NOT NULL DEFAULT '';`,
		},
		MySQL: {
			// Only MariaDB has RETURNING, and MySQL deprecates VALUES(): so the arguments are passed several times. Text is
			// passed as hexadecimal digits: a connection whose character set is not the one of its bytes would convert it.
			// The new token does not depend on whether it is computed before or after the history is assigned: MariaDB can
			// be configured to assign all columns at the same time.
			//
			// Galera and group replication detect a conflict of two transactions when both have changed a row. A raise with
			// the stored token changes nothing but raised.
			raise: "INSERT INTO {table} (resource, token, history) VALUES (UNHEX(?), ?, UNHEX(?)) ON DUPLICATE KEY UPDATE " +
				"history = IF(history = '' AND token <= ?, UNHEX(?), history), " +
				"token = IF(history IN ('', UNHEX(?)) OR ? = '', GREATEST(token, ?), token), " +
				"raised = raised + 1",
			set: "INSERT INTO {table} (resource, token, history) VALUES (UNHEX(?), ?, UNHEX(?)) ON DUPLICATE KEY UPDATE " +
				"token = ?, history = UNHEX(?), raised = raised + 1",
			held:         "SELECT token, history, 0, COALESCE(DATABASE(), ''), TRUE FROM {table} WHERE resource = UNHEX(?) FOR UPDATE",
			mark:         "SAVEPOINT {name}",
			release:      "RELEASE SAVEPOINT {name}",
			admitMark:    "SAVEPOINT {name}_admit",
			admitRelease: "RELEASE SAVEPOINT {name}_admit",
			newest:       "SELECT token FROM {table} WHERE resource = UNHEX(?)",
			version: "SELECT 1 + (SELECT COUNT(*) FROM information_schema.columns " +
				"WHERE table_schema = {schema} AND table_name = '{name}' AND column_name = 'history') " +
				"FROM information_schema.tables WHERE table_schema = {schema} AND table_name = '{name}'",
			// The usual collations treat 'a' as equal to 'A' and to 'a ', and so one resource as another: bytes do not. An
			// engine without transactions would not hold the row.
			migration: `CREATE TABLE IF NOT EXISTS {table} (
	resource VARBINARY(512) NOT NULL PRIMARY KEY,
	token BIGINT NOT NULL,
	history VARBINARY(64) NOT NULL DEFAULT '',
	raised BIGINT NOT NULL DEFAULT 0
) ENGINE = InnoDB;`,
			// MySQL, which has no IF NOT EXISTS here, reads it as a comment; MariaDB executes it.
			upgrade: `ALTER TABLE {table}
	ADD COLUMN /*M! IF NOT EXISTS */ history VARBINARY(64) NOT NULL DEFAULT '',
	ADD COLUMN /*M! IF NOT EXISTS */ raised BIGINT NOT NULL DEFAULT 0;`,
		},
		SQLite: {
			raise: "INSERT INTO {table} AS f (resource, token, history) VALUES (?1, ?2, ?3) ON CONFLICT (resource) DO UPDATE SET " +
				"token = CASE WHEN f.history IN ('', EXCLUDED.history) OR EXCLUDED.history = '' " +
				"THEN MAX(f.token, EXCLUDED.token) ELSE f.token END, " +
				"history = CASE WHEN f.history = '' AND f.token <= EXCLUDED.token THEN EXCLUDED.history ELSE f.history END " +
				"RETURNING token, history, 0, '', TRUE",
			set: "INSERT INTO {table} AS f (resource, token, history) VALUES (?1, ?2, ?3) ON CONFLICT (resource) DO UPDATE SET " +
				"token = EXCLUDED.token, history = EXCLUDED.history RETURNING token, history, 0, '', TRUE",
			mark:    "SAVEPOINT {name}",
			release: "RELEASE SAVEPOINT {name}",
			back:    "ROLLBACK TO SAVEPOINT {name}",
			newest:  "SELECT token FROM {table} WHERE resource = ?1",
			version: "SELECT 1 + (SELECT COUNT(*) FROM pragma_table_info('{name}', '{schema}') WHERE name = 'history') " +
				"FROM {schema}.sqlite_master WHERE type = 'table' AND name = '{name}'",
			migration: `CREATE TABLE IF NOT EXISTS {table} (
	resource TEXT NOT NULL PRIMARY KEY,
	token INTEGER NOT NULL CHECK (token >= 0),
	history TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;`,
			upgrade: `ALTER TABLE {table} ADD COLUMN history TEXT NOT NULL DEFAULT '';`,
		},
	}[d]
	schema, name, qualified := strings.Cut(table, ".")
	if !qualified {
		schema, name = map[Dialect]string{MySQL: "DATABASE()", SQLite: "main"}[d], table
	} else if d == MySQL {
		schema = "'" + schema + "'"
	}
	parts := strings.NewReplacer("{table}", table, "{name}", name, "{schema}", schema)
	for _, text := range []*string{
		&s.raise, &s.set, &s.held, &s.mark, &s.release, &s.back, &s.admitMark, &s.admitRelease, &s.newest, &s.version, &s.migration, &s.upgrade,
	} {
		*text = parts.Replace(*text)
	}
	return s
}

// name returns the argument for the name of a resource, or for the id of a history.
func (d Dialect) name(text string) any {
	if d == SQLite {
		return text
	}
	return hex.EncodeToString([]byte(text))
}

// raiseArgs returns the arguments of raise.
func (d Dialect) raiseArgs(resource string, token fencing.Token, history string) []any {
	r, t, h := d.name(resource), int64(token), d.name(history)
	if d == MySQL {
		return []any{r, t, h, t, h, h, h, t}
	}
	return []any{r, t, h}
}

// setArgs returns the arguments of set.
func (d Dialect) setArgs(resource string, token fencing.Token, history string) []any {
	r, t, h := d.name(resource), int64(token), d.name(history)
	if d == MySQL {
		return []any{r, t, h, t, h}
	}
	return []any{r, t, h}
}
