// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

// switchSchema makes the pool's one connection use another schema, which has its own fence, as SET or USE of another
// application does behind a pooler.
func switchSchema(t *testing.T, c client, e *entries) {
	t.Helper()
	name, err := c.server.Server(t).CreateDatabase(t.Context())
	require.NoError(t, err)
	use := map[sqlfence.Dialect]string{sqlfence.PostgreSQL: "SET search_path = ", sqlfence.MySQL: "USE "}
	for _, statement := range []string{use[c.dialect] + name, sqlfence.Migration(c.dialect), entriesTable[c.dialect]} {
		_, err := e.db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
}

func TestFenceOfAnotherSchemaIsNotUsed(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			e := entriesIn(t, c.empty(t), nil)
			e.db.SetMaxOpenConns(1)
			require.NoError(t, e.Write(t.Context(), "ledger", 9, "nine"))
			switchSchema(t, c, e)
			for _, err := range []error{
				e.Write(t.Context(), "ledger", 7, "seven, late"),
				e.Write(t.Context(), "ledger", 9, "nine again"),
				e.guard.Reset(t.Context(), "ledger", 1),
			} {
				require.ErrorIs(t, err, sqlfence.ErrOtherTable)
				require.NotErrorIs(t, err, fencing.ErrStale)
				require.ErrorContains(t, err, "lockkeeper_fence")
				require.ErrorContains(t, err, "Options.Table")
			}
			newest, err := e.guard.Newest(t.Context(), "ledger")
			require.NoError(t, err)
			require.Zero(t, newest, "the other fence is not changed")
		})
	}
}

func TestFenceNamedWithItsSchemaDoesNotDependOnTheConnection(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			s := c.empty(t)
			e := entriesIn(t, s, &sqlfence.Options{Table: s.name + ".lockkeeper_fence"})
			e.db.SetMaxOpenConns(1)
			require.NoError(t, e.Write(t.Context(), "ledger", 9, "nine"))
			switchSchema(t, c, e)
			require.ErrorIs(t, e.Write(t.Context(), "ledger", 7, "seven, late"), fencing.ErrStale)
			require.NoError(t, e.Write(t.Context(), "ledger", 10, "ten"))
			newest, err := e.guard.Newest(t.Context(), "ledger")
			require.NoError(t, err)
			require.EqualValues(t, 10, newest)
			require.NoError(t, e.guard.Reset(t.Context(), "ledger", 3))
			require.ErrorIs(t, guardIn(t, s, nil).Do(t.Context(), "ledger", 2, nothing), fencing.ErrStale)
		})
	}
}

func TestMissingTableErrorNamesTheSchema(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			s := c.bare(t)
			requireMissingTableError(t, s, &sqlfence.Options{Table: s.name + ".fence"})
		})
	}
	t.Run("SQLite", func(t *testing.T) {
		s := sqlite(filepath.Join(t.TempDir(), "test.db"), "WAL", true)
		requireMissingTableError(t, s, &sqlfence.Options{Table: "main.fence"})
		require.ErrorIs(t, guardIn(t, s, &sqlfence.Options{Table: "fence"}).Do(t.Context(), "ledger", 6, nothing), fencing.ErrStale)
	})
}

// Names are compared by their bytes, not by their representation in a connection's character set.
func TestResourceDoesNotDependOnTheCharacterSetOfTheConnection(t *testing.T) {
	s := maria.empty(t)
	settings := []string{
		"", "charset=latin1", "interpolateParams=true", "charset=latin1&interpolateParams=true",
		"character_set_client=latin1", "character_set_client=latin1&interpolateParams=true",
		"character_set_connection=latin1", "character_set_connection=latin1&interpolateParams=true",
	}
	guards := map[string]*sqlfence.Guard{}
	for _, setting := range settings {
		guards[setting] = guardIn(t, s.with(setting), nil)
	}
	names := []string{"ledgér", "Ж", "Я", "?"}
	token := fencing.Token(100)
	for i, name := range names {
		for _, setting := range settings {
			guard := guards[setting]
			newest, err := guard.Newest(t.Context(), name)
			require.NoError(t, err)
			if i > 0 && setting == settings[0] {
				require.Zero(t, newest, "%q is another resource than the ones before", name)
			}
			token++
			require.NoError(t, guard.Do(t.Context(), name, token, nothing), setting)
			for _, other := range settings {
				require.ErrorIs(t, guards[other].Do(t.Context(), name, token-1, nothing), fencing.ErrStale,
					"%q: written with %q, checked with %q", name, setting, other)
			}
		}
	}
}

// A function of any application may change client_encoding on a connection of the pool, and an operator may change it for a role.
func TestResourceDoesNotDependOnTheClientEncoding(t *testing.T) {
	for _, c := range []client{pgx, pq} {
		t.Run(c.name, func(t *testing.T) {
			s := c.empty(t)
			utf8, latin1 := entriesIn(t, s, nil), entriesIn(t, s, nil)
			latin1.db.SetMaxOpenConns(1)
			_, err := latin1.db.ExecContext(t.Context(), "SET client_encoding = 'LATIN1'")
			require.NoError(t, err)
			for i, name := range []string{"ledgér", "Ж", "Я", "€"} {
				newer, older := utf8, latin1
				if i%2 == 1 {
					newer, older = older, newer
				}
				require.NoError(t, newer.guard.Do(t.Context(), name, 9, nothing))
				require.ErrorIs(t, older.guard.Do(t.Context(), name, 7, nothing), fencing.ErrStale, name)
				newest, err := older.guard.Newest(t.Context(), name)
				require.NoError(t, err)
				require.EqualValues(t, 9, newest)
			}
			var rows int
			err = utf8.db.QueryRowContext(t.Context(), "SELECT count(*) FROM lockkeeper_fence WHERE resource = $1", "ledgér").Scan(&rows)
			require.NoError(t, err)
			require.Equal(t, 1, rows, "the row has the name of a client that sends UTF-8 text")
		})
	}
}
