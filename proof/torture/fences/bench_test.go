// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

// BenchmarkSQL compares a guarded write with the same write in a plain transaction. The servers do not wait for a disk. On one
// that does, the guard adds the same time to a write that takes longer.
func BenchmarkSQL(b *testing.B) {
	for _, c := range clients {
		b.Run(c.name, func(b *testing.B) { guardedAndBare(b, c.empty(b)) })
		if c.dialect == sqlfence.MySQL { // without a prepared statement for each statement
			b.Run(c.name+" interpolated", func(b *testing.B) { guardedAndBare(b, c.empty(b).with("interpolateParams=true")) })
		}
	}
	for _, journal := range []string{"DELETE", "WAL"} {
		b.Run("SQLite "+journal, func(b *testing.B) {
			s := sqlite(filepath.Join(b.TempDir(), "test.db"), journal, true).with("_pragma=synchronous(FULL)") // SQLite's default
			s.prepare(b)
			guardedAndBare(b, s)
		})
	}
}

func guardedAndBare(b *testing.B, s source) {
	b.Helper()
	db := s.open(b)
	guard, err := sqlfence.New(db, s.dialect, nil)
	require.NoError(b, err)
	n := 0
	value := func() string { n++; return fmt.Sprint(n) }
	sideBySide(b, func() error {
		return guard.Do(b.Context(), "ledger", 7, func(tx *sql.Tx) error {
			return put(b.Context(), tx, s.dialect, "guarded", value())
		})
	}, func() error {
		tx, err := db.BeginTx(b.Context(), nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // no effect after the commit
		if err := put(b.Context(), tx, s.dialect, "bare", value()); err != nil {
			return err
		}
		return tx.Commit()
	})
}
