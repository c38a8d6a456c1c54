// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

// restoring is a trigger that restores the row of a fence, in each database.
var restoring = map[sqlfence.Dialect][]string{
	sqlfence.PostgreSQL: {
		"CREATE FUNCTION restored() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END'",
		"CREATE TRIGGER restore BEFORE UPDATE ON lockkeeper_fence FOR EACH ROW EXECUTE FUNCTION restored()",
	},
	sqlfence.MySQL: {"CREATE TRIGGER restored BEFORE UPDATE ON lockkeeper_fence FOR EACH ROW SET NEW.token = OLD.token"},
}

func TestRaiseWithoutEffectAdmitsNoToken(t *testing.T) {
	refused := func(t *testing.T, e *entries) {
		t.Helper()
		require.NoError(t, e.Write(t.Context(), "ledger", 7, "seven"), "the trigger changes nothing yet")
		err := e.Write(t.Context(), "ledger", 9, "nine")
		require.ErrorIs(t, err, sqlfence.ErrNotRaised)
		require.ErrorContains(t, err, `write "ledger" with token 9`)
		require.ErrorContains(t, err, "contains token 7")
		require.ErrorIs(t, e.guard.Admit(t.Context(), begin(t, e.db), "ledger", 9), sqlfence.ErrNotRaised)
		value, err := e.Value(t.Context(), "ledger")
		require.NoError(t, err)
		require.Equal(t, "seven", value)
	}
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			e := entriesIn(t, c.empty(t), nil)
			for _, statement := range restoring[c.dialect] {
				_, err := e.db.ExecContext(t.Context(), statement)
				require.NoError(t, err)
			}
			refused(t, e)
		})
	}
}

func TestSuppressedRaiseAdmitsNoToken(t *testing.T) {
	for name, c := range map[string]struct {
		source   source
		suppress []string
	}{
		"PostgreSQL": {pgx.empty(t), []string{
			"CREATE FUNCTION suppressed() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
			"CREATE TRIGGER suppress BEFORE UPDATE ON lockkeeper_fence FOR EACH ROW EXECUTE FUNCTION suppressed()",
		}},
		"SQLite": {empty(t, "WAL"), []string{
			"CREATE TRIGGER suppress BEFORE UPDATE ON lockkeeper_fence BEGIN SELECT RAISE(IGNORE); END",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e := entriesIn(t, c.source, nil)
			require.NoError(t, e.Write(t.Context(), "ledger", 7, "seven"))
			for _, statement := range c.suppress {
				_, err := e.db.ExecContext(t.Context(), statement)
				require.NoError(t, err)
			}
			require.ErrorIs(t, e.Write(t.Context(), "ledger", 9, "nine"), sqlfence.ErrNotRaised)
			require.ErrorIs(t, e.guard.Reset(t.Context(), "ledger", 0), sqlfence.ErrNotRaised)
			value, err := e.Value(t.Context(), "ledger")
			require.NoError(t, err)
			require.Equal(t, "seven", value)
		})
	}
}

func TestResetWithoutEffectIsReported(t *testing.T) {
	for _, c := range clients {
		e := entriesIn(t, c.empty(t), nil)
		require.NoError(t, e.Write(t.Context(), "ledger", 7, "seven"))
		for _, statement := range restoring[c.dialect] {
			_, err := e.db.ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
		require.ErrorIs(t, e.guard.Reset(t.Context(), "ledger", 0), sqlfence.ErrNotRaised, c.name)
	}
}

// The documentation states this limit: the database returns the row before it runs the trigger.
func TestAfterTriggerThatRestoresTheTokenEndsThePromise(t *testing.T) {
	s := empty(t, "WAL")
	e := entriesIn(t, s, nil)
	require.NoError(t, e.Write(t.Context(), "ledger", 7, "seven"))
	_, err := e.db.ExecContext(t.Context(), "CREATE TRIGGER restore AFTER UPDATE ON lockkeeper_fence WHEN NEW.token > OLD.token "+
		"BEGIN UPDATE lockkeeper_fence SET token = OLD.token WHERE resource = NEW.resource; END")
	require.NoError(t, err)
	require.NoError(t, e.Write(t.Context(), "ledger", 9, "nine"))
	newest, err := e.guard.Newest(t.Context(), "ledger")
	require.NoError(t, err)
	require.EqualValues(t, 7, newest)
}

// EMPTY_STRING_IS_NULL makes comparisons with the empty history unknown, and the raise then keeps the older token.
func TestModeThatTurnsEmptyTextIntoNullAdmitsNoToken(t *testing.T) {
	s := maria.empty(t)
	require.NoError(t, entriesIn(t, s, nil).Write(t.Context(), "ledger", 7, "seven"))
	for _, setting := range []string{"", "&interpolateParams=true"} {
		e := entriesIn(t, s.with("sql_mode=%27EMPTY_STRING_IS_NULL%27"+setting), &sqlfence.Options{History: "after"})
		require.ErrorIs(t, e.Write(t.Context(), "ledger", 9, "nine"), sqlfence.ErrNotRaised)
		value, err := e.Value(t.Context(), "ledger")
		require.NoError(t, err)
		require.Equal(t, "seven", value)
	}
}
