// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
)

// A galera is a database on two nodes that both accept writes, with the entries on each of them.
type galera struct {
	lagging, ahead *entries
	applier        *sql.Conn // on lagging; its transactions are not replicated
}

func newGalera(t *testing.T) galera {
	t.Helper()
	cluster := stores.Galera(t, 2)
	name, err := cluster[0].CreateDatabase(t.Context())
	require.NoError(t, err)
	on := func(node *stores.SQL) source {
		return source{driver: "mysql", dialect: sqlfence.MySQL, dsn: node.DSN(name), name: name}
	}
	lagging, ahead := on(cluster[0]), on(cluster[1])
	lagging.prepare(t)
	db := lagging.open(t)
	for _, statement := range []string{"CREATE TABLE dam (id INT PRIMARY KEY, n INT)", "INSERT INTO dam VALUES (1, 0)"} {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	applier, err := db.Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, applier.Close()) })
	_, err = applier.ExecContext(t.Context(), "SET SESSION wsrep_on = OFF")
	require.NoError(t, err)
	g := galera{entriesIn(t, lagging, nil), entriesIn(t, ahead, nil), applier}
	g.caughtUp(t)
	return g
}

// caughtUp waits until each node has applied the commits of the other.
func (g galera) caughtUp(t *testing.T) {
	t.Helper()
	for _, e := range []*entries{g.lagging, g.ahead} {
		var n int
		require.NoError(t, e.db.QueryRowContext(t.Context(),
			"SET STATEMENT wsrep_sync_wait = 15 FOR SELECT COUNT(*) FROM dam").Scan(&n))
	}
}

// lag stops the lagging node from applying the commits of the other, until the returned function is called: its only applier
// thread waits for a row that a local transaction has locked.
func (g galera) lag(t *testing.T) (catchUp func()) {
	t.Helper()
	for _, statement := range []string{"BEGIN", "UPDATE dam SET n = n + 1"} {
		_, err := g.applier.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	_, err := g.ahead.db.ExecContext(t.Context(), "UPDATE dam SET n = n + 2")
	require.NoError(t, err)
	return func() {
		_, err := g.applier.ExecContext(context.WithoutCancel(t.Context()), "ROLLBACK")
		require.NoError(t, err)
	}
}

// committing waits until the lagging node has received a COMMIT.
func (g galera) committing(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		var n int
		return g.applier.QueryRowContext(t.Context(),
			"SELECT COUNT(*) FROM information_schema.processlist WHERE info = 'COMMIT'").Scan(&n) == nil && n == 1
	}, patience, tick)
}

func TestOlderWriteOnALaggingGaleraNodeIsRejectedAtItsCommit(t *testing.T) {
	g := newGalera(t)
	require.NoError(t, g.lagging.Write(t.Context(), "ledger", 7, "seven"))
	g.caughtUp(t)

	// The two write different rows, so that they conflict only in the fence.
	catchUp := g.lag(t)
	require.NoError(t, g.ahead.Write(t.Context(), "ledger", 9, "nine"))
	older := make(chan error, 1)
	go func() {
		older <- g.lagging.guard.Do(t.Context(), "ledger", 7, func(tx *sql.Tx) error {
			return put(t.Context(), tx, sqlfence.MySQL, "total", "stale")
		})
	}()
	g.committing(t)
	catchUp()
	err := <-older
	require.Error(t, err)
	require.NotErrorIs(t, err, sqlfence.ErrUncertain)
	require.ErrorContains(t, err, "commit refused")
	g.caughtUp(t)
	for _, e := range []*entries{g.lagging, g.ahead} {
		value, err := e.Value(t.Context(), "total")
		require.NoError(t, err)
		require.Empty(t, value)
	}
	require.ErrorIs(t, g.lagging.Write(t.Context(), "ledger", 7, "seven, later"), fencing.ErrStale)
}
