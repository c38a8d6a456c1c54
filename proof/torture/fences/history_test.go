// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

func guardOfHistory(t *testing.T, s source, id string) *sqlfence.Guard {
	t.Helper()
	return guardIn(t, s, &sqlfence.Options{History: id})
}

func TestTokenOfAnotherHistoryIsRefusedUntilAReset(t *testing.T) {
	everywhere(t, func(t *testing.T, s source) {
		t.Helper()
		before, after := guardOfHistory(t, s, "before"), guardOfHistory(t, s, "after")
		require.NoError(t, before.Do(t.Context(), "ledger", 9, nothing))
		for _, token := range []fencing.Token{8, 9, 10} {
			err := after.Do(t.Context(), "ledger", token, nothing)
			var other *fencing.HistoryError
			require.ErrorAs(t, err, &other)
			require.Equal(t, fencing.HistoryError{Token: token, Given: "after", Stored: "before"}, *other)
			require.NotErrorIs(t, err, fencing.ErrStale)
		}
		require.NoError(t, before.Do(t.Context(), "ledger", 9, nothing), "rejected tokens change nothing")

		require.NoError(t, after.Reset(t.Context(), "ledger", 0))
		require.NoError(t, after.Do(t.Context(), "ledger", 5, nothing))
		require.ErrorIs(t, after.Do(t.Context(), "ledger", 4, nothing), fencing.ErrStale)
		require.ErrorIs(t, before.Do(t.Context(), "ledger", 10, nothing), fencing.ErrOtherHistory)
	})
}

func TestHistoryIsAdoptedWithTheFirstTokenThatIsAdmitted(t *testing.T) {
	everywhere(t, func(t *testing.T, s source) {
		t.Helper()
		unchecked, before, after := guardIn(t, s, nil), guardOfHistory(t, s, "before"), guardOfHistory(t, s, "after")
		require.NoError(t, unchecked.Do(t.Context(), "ledger", 9, nothing))
		require.ErrorIs(t, before.Do(t.Context(), "ledger", 8, nothing), fencing.ErrStale)
		require.NoError(t, after.Do(t.Context(), "ledger", 9, nothing), "the history of an equal token is adopted, and not a rejected token's")
		require.ErrorIs(t, before.Do(t.Context(), "ledger", 10, nothing), fencing.ErrOtherHistory)

		require.NoError(t, unchecked.Do(t.Context(), "ledger", 11, nothing))
		require.ErrorIs(t, before.Do(t.Context(), "ledger", 12, nothing), fencing.ErrOtherHistory, "a guard without an id keeps the stored one")
		require.NoError(t, unchecked.Reset(t.Context(), "ledger", 11))
		require.NoError(t, before.Do(t.Context(), "ledger", 11, nothing), "its reset clears the stored one")
	})
}

// versionOne has the tables that the previous version created.
var versionOne = map[sqlfence.Dialect]string{
	sqlfence.PostgreSQL: `CREATE TABLE lockkeeper_fence (
	resource TEXT COLLATE "C" PRIMARY KEY, token BIGINT NOT NULL CHECK (token >= 0))`,
	sqlfence.MySQL: `CREATE TABLE lockkeeper_fence (
	resource VARBINARY(512) NOT NULL PRIMARY KEY, token BIGINT NOT NULL) ENGINE = InnoDB`,
	sqlfence.SQLite: `CREATE TABLE lockkeeper_fence (
	resource TEXT NOT NULL PRIMARY KEY, token INTEGER NOT NULL CHECK (token >= 0)) WITHOUT ROWID`,
}

func TestUpgradeKeepsTheTokensOfTableOfVersionOne(t *testing.T) {
	everywhere(t, func(t *testing.T, s source) {
		t.Helper()
		db := s.open(t)
		run := func(statements ...string) {
			for _, statement := range statements {
				_, err := db.ExecContext(t.Context(), statement)
				require.NoError(t, err)
			}
		}
		run("DROP TABLE lockkeeper_fence", versionOne[s.dialect], "INSERT INTO lockkeeper_fence VALUES ('ledger', 9)")
		guard := guardOfHistory(t, s, "id")
		for _, err := range []error{
			guard.Do(t.Context(), "ledger", 9, nothing),
			guard.Reset(t.Context(), "ledger", 9),
		} {
			require.ErrorIs(t, err, sqlfence.ErrOldTable)
			require.NotErrorIs(t, err, sqlfence.ErrNoTable)
			require.ErrorContains(t, err, guard.Upgrade())
		}
		run(guard.Migration()) // changes nothing
		require.ErrorIs(t, guard.Do(t.Context(), "ledger", 9, nothing), sqlfence.ErrOldTable)

		run(guard.Upgrade())
		require.ErrorIs(t, guard.Do(t.Context(), "ledger", 8, nothing), fencing.ErrStale)
		require.NoError(t, guard.Do(t.Context(), "ledger", 9, nothing))
		// A statement of the previous version.
		run("INSERT INTO lockkeeper_fence (resource, token) VALUES ('page', 3)")
		require.NoError(t, guard.Do(t.Context(), "page", 3, nothing))
		if s.dialect != sqlfence.SQLite {
			run(guard.Upgrade())
		}
	})
}
