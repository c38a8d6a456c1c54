// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

// rowSources returns the databases in which rows contain their own tokens, by name.
func rowSources(t *testing.T) map[string]source {
	t.Helper()
	return map[string]source{
		"SQLite":           empty(t, "WAL"),
		"PostgreSQL":       pgx.bare(t),
		"PostgreSQL by pq": pq.bare(t),
		"MariaDB":          maria.bare(t).with("clientFoundRows=true"),
	}
}

// jobs is a table whose rows contain their own tokens.
type jobs struct {
	db      *sql.DB
	dialect sqlfence.Dialect
}

func jobsIn(t *testing.T, s source) jobs {
	t.Helper()
	db := s.open(t)
	for _, statement := range []string{
		"CREATE TABLE jobs (id INTEGER PRIMARY KEY, state VARCHAR(100) NOT NULL, token BIGINT NOT NULL)",
		"INSERT INTO jobs VALUES (1, 'new', 0)",
	} {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	return jobs{db, s.dialect}
}

func (j jobs) set(t *testing.T, id int, token fencing.Token, state string) error {
	t.Helper()
	return sqlfence.UpdateRow(t.Context(), j.db, token, sqlfence.Row{
		Update:     dialected(j.dialect, "UPDATE jobs SET state = ?, token = ? WHERE id = ? AND token <= ?"),
		UpdateArgs: []any{state, int64(token), id, int64(token)},
		Newest:     dialected(j.dialect, "SELECT token FROM jobs WHERE id = ?"),
		NewestArgs: []any{id},
	})
}

func (j jobs) state(t *testing.T) string {
	t.Helper()
	var state string
	require.NoError(t, j.db.QueryRowContext(t.Context(), "SELECT state FROM jobs").Scan(&state))
	return state
}

func TestRowWithItsOwnTokenIsGuarded(t *testing.T) {
	for name, s := range rowSources(t) {
		t.Run(name, func(t *testing.T) {
			j := jobsIn(t, s)
			require.NoError(t, j.set(t, 1, 7, "begun"))
			require.NoError(t, j.set(t, 1, 7, "begun"), "the same write again")
			require.NoError(t, j.set(t, 1, 9, "taken over"))
			var stale *fencing.StaleError
			require.ErrorAs(t, j.set(t, 1, 7, "done"), &stale)
			require.Equal(t, fencing.StaleError{Token: 7, Newest: 9}, *stale)
			require.ErrorIs(t, j.set(t, 2, 9, "done"), sqlfence.ErrNoRow)
			require.Equal(t, "taken over", j.state(t))
		})
	}
}

func TestRowKeepsTheHistoryOfItsToken(t *testing.T) {
	for name, s := range rowSources(t) {
		t.Run(name, func(t *testing.T) {
			j := jobsIn(t, s)
			_, err := j.db.ExecContext(t.Context(), "ALTER TABLE jobs ADD COLUMN history VARCHAR(64) NOT NULL DEFAULT ''")
			require.NoError(t, err)
			set := func(history string, token fencing.Token, state string) error {
				return sqlfence.UpdateRow(t.Context(), j.db, token, sqlfence.Row{
					Update: dialected(j.dialect,
						"UPDATE jobs SET state = ?, token = ?, history = ? WHERE id = ? AND token <= ? AND history IN ('', ?)"),
					UpdateArgs: []any{state, int64(token), history, 1, int64(token), history},
					Newest:     dialected(j.dialect, "SELECT token, history FROM jobs WHERE id = ?"),
					NewestArgs: []any{1},
					History:    history,
				})
			}
			require.NoError(t, set("before", 9, "begun"))
			require.ErrorIs(t, set("before", 8, "stale"), fencing.ErrStale)
			for _, token := range []fencing.Token{8, 9, 10} {
				var other *fencing.HistoryError
				require.ErrorAs(t, set("after", token, "again"), &other)
				require.Equal(t, fencing.HistoryError{Token: token, Given: "after", Stored: "before"}, *other)
			}
			require.Equal(t, "begun", j.state(t))
		})
	}
}

// An older writer waits for a newer one that has changed the row, and then reads the newer token.
func TestOlderWriterOfARowThatWaitedIsRejected(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			s := c.bare(t)
			j := jobsIn(t, s)
			tx, err := s.open(t).BeginTx(t.Context(), nil)
			require.NoError(t, err)
			_, err = tx.ExecContext(t.Context(), "UPDATE jobs SET state = 'taken over', token = 9 WHERE id = 1")
			require.NoError(t, err)
			older := make(chan error, 1)
			go func() { older <- j.set(t, 1, 7, "done") }()
			require.Eventually(t, func() bool { return j.db.Stats().InUse == 1 }, 10*time.Second, time.Millisecond)
			require.NoError(t, tx.Commit())
			require.ErrorIs(t, <-older, fencing.ErrStale)
			require.Equal(t, "taken over", j.state(t))
		})
	}
}

// MySQL and MariaDB count changed rows. A row that already has the new values counts as not found.
func TestUnchangedRowIsAnErrorWhereMariaDBCountsChanges(t *testing.T) {
	j := jobsIn(t, maria.bare(t))
	require.NoError(t, j.set(t, 1, 7, "begun"))
	err := j.set(t, 1, 7, "begun")
	require.ErrorContains(t, err, "changes no row, although the row's token is 7")
	require.NotErrorIs(t, err, fencing.ErrStale)
	require.NoError(t, j.set(t, 1, 7, "done"))
}
