// SPDX-License-Identifier: Apache-2.0

package sqlfence

import (
	"fmt"
	"strings"
)

// A Dialect says which database speaks: how its statements are written, and how one of them raises the fence and holds
// its row. The zero value is none.
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

// What a guard says to its database. {table} is the guard's table, whose name needs no quotes.
type statements struct {
	// Puts in a row, or raises the one that is there, and holds it until the transaction ends. It is the first statement
	// of the transaction, and a write: that is what BEGIN IMMEDIATE is for in SQLite, which otherwise lets two
	// transactions read and then refuses one of them the write. With returns, it yields the newest token, and with number
	// the transaction's besides.
	raise   string
	returns bool
	// Like raise, but sets the token, lower or not.
	set string
	// Yields the newest token as of the transaction. After raise it has to be a locking read in MySQL: a plain one would
	// be of the transaction's snapshot.
	held string
	// Begin and end what the function does, where its statements can end the transaction unseen: MySQL commits at a
	// statement such as CREATE TABLE and rolls back at a deadlock, SQLite rolls back at a write that is interrupted, and
	// both let each that follows commit by itself. The savepoint goes with the transaction, so that it is missed.
	mark, release string
	// Yields the number of the transaction, if it has written. PostgreSQL has one, so that it takes no savepoint to find out
	// that a COMMIT was sent as a statement, which drivers need not notice.
	number string
	// Yields the newest token, without holding anything.
	newest string
	// Yields one row if the table exists, and none if it does not.
	exists string
	// Makes the table.
	migration string
}

func (d Dialect) statements(table string) statements {
	s := map[Dialect]statements{
		PostgreSQL: {
			raise: "INSERT INTO {table} AS f (resource, token) VALUES ($1, $2) " +
				"ON CONFLICT (resource) DO UPDATE SET token = GREATEST(f.token, EXCLUDED.token) RETURNING token, txid_current()",
			returns: true,
			number:  "SELECT coalesce(txid_current_if_assigned(), 0)",
			set: "INSERT INTO {table} (resource, token) VALUES ($1, $2) " +
				"ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token",
			newest: "SELECT token FROM {table} WHERE resource = $1",
			exists: "SELECT 1 WHERE to_regclass('{table}') IS NOT NULL",
			// Text in the collation C compares bytes, wherever the database was made.
			migration: `CREATE TABLE IF NOT EXISTS {table} (
	resource TEXT COLLATE "C" PRIMARY KEY,
	token BIGINT NOT NULL CHECK (token >= 0)
);`,
		},
		MySQL: {
			// RETURNING is MariaDB's only, and VALUES() is on its way out of MySQL: so the token goes in twice.
			raise: "INSERT INTO {table} (resource, token) VALUES (?, ?) " +
				"ON DUPLICATE KEY UPDATE token = GREATEST(token, ?)",
			set:     "INSERT INTO {table} (resource, token) VALUES (?, ?) ON DUPLICATE KEY UPDATE token = ?",
			held:    "SELECT token FROM {table} WHERE resource = ? FOR UPDATE",
			mark:    "SAVEPOINT {table}",
			release: "RELEASE SAVEPOINT {table}",
			newest:  "SELECT token FROM {table} WHERE resource = ?",
			exists:  "SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '{table}'",
			// The usual collations take 'a' for 'A' and 'a ', and so one resource for another: bytes do not. An engine
			// without transactions would not hold the row.
			migration: `CREATE TABLE IF NOT EXISTS {table} (
	resource VARBINARY(512) NOT NULL PRIMARY KEY,
	token BIGINT NOT NULL
) ENGINE = InnoDB;`,
		},
		SQLite: {
			raise: "INSERT INTO {table} AS f (resource, token) VALUES (?, ?) " +
				"ON CONFLICT (resource) DO UPDATE SET token = MAX(f.token, EXCLUDED.token) RETURNING token",
			returns: true,
			set: "INSERT INTO {table} (resource, token) VALUES (?, ?) " +
				"ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token",
			mark:    "SAVEPOINT {table}",
			release: "RELEASE SAVEPOINT {table}",
			newest:  "SELECT token FROM {table} WHERE resource = ?",
			exists:  "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{table}'",
			migration: `CREATE TABLE IF NOT EXISTS {table} (
	resource TEXT NOT NULL PRIMARY KEY,
	token INTEGER NOT NULL CHECK (token >= 0)
) WITHOUT ROWID;`,
		},
	}[d]
	for _, text := range []*string{&s.raise, &s.set, &s.held, &s.mark, &s.release, &s.newest, &s.exists, &s.migration} {
		*text = strings.ReplaceAll(*text, "{table}", table)
	}
	return s
}
