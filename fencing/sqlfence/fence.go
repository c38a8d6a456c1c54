// SPDX-License-Identifier: Apache-2.0

package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// A fence is the row of one resource, as the transaction that holds it sees it.
type fence struct {
	newest  fencing.Token
	history string
	number  int64  // of the transaction, if the database has one
	place   string // the table that the name means on this connection
	whole   bool   // ends with the transaction; false: with a savepoint
}

// raise makes token the newest of resource if it is newer, holds the row in either case, and returns it.
func (g *Guard) raise(ctx context.Context, q Querier, resource string, token fencing.Token) (fence, error) {
	return g.execute(ctx, q, g.sql.raise, g.dialect.raiseArgs(resource, token, g.history), resource)
}

// execute executes statement, which is raise or set, and returns the row of resource that results.
func (g *Guard) execute(ctx context.Context, q Querier, statement string, args []any, resource string) (f fence, err error) {
	if g.sql.held != "" {
		if err := q.Exec(ctx, statement, args...); err != nil {
			return fence{}, err
		}
		statement, args = g.sql.held, []any{g.dialect.name(resource)}
	}
	// Scan into an int64, not into f.newest: some drivers scan only into basic types.
	var newest int64
	err = q.QueryRow(ctx, statement, args...).Scan(&newest, &f.history, &f.number, &f.place, &f.whole)
	f.newest = fencing.Token(newest)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("%w: %s returned no row: look for a trigger that suppresses the write: %w", ErrNotRaised, g.table, err)
	}
	return f, err
}

// notRaised returns the error for a row that does not contain what was written to it.
func (g *Guard) notRaised(f fence) error {
	return fmt.Errorf("%w: the row of %s then contains token %d of history %q: look for a trigger or an SQL mode that changes "+
		"what is written to it", ErrNotRaised, g.table, int64(f.newest), f.history)
}

// verdict returns nil if f, whose row was raised with token, admits it, and otherwise the reason why not.
func (g *Guard) verdict(f fence, token fencing.Token) error {
	if err := g.place.check(g.table, f.place); err != nil {
		return err
	}
	if g.history != "" && f.history != "" && f.history != g.history {
		return &fencing.HistoryError{Token: token, Given: g.history, Stored: f.history}
	}
	if token < f.newest {
		return &fencing.StaleError{Token: token, Newest: f.newest}
	}
	if token > f.newest || g.history != f.history && g.history != "" {
		return g.notRaised(f)
	}
	if !f.whole {
		return fmt.Errorf("%w: call Admit before the savepoint (in GORM, bun and pgx: before the nested transaction)", ErrInSavepoint)
	}
	return nil
}

// A place records the table that the name of a guard's table meant the first time. A name without a schema can mean another
// table on another connection of the pool, with its own rows, in which no token was admitted.
type place struct{ first atomic.Pointer[string] }

// places contains a place for each database and table. Guards share it, as a server may create one for each request.
var places sync.Map // of placeKey to *place

type placeKey struct {
	db    weak.Pointer[sql.DB]
	table string
}

func placeOf(db *sql.DB, table string) *place {
	key := placeKey{weak.Make(db), table}
	p, known := places.LoadOrStore(key, &place{})
	if !known {
		runtime.AddCleanup(db, func(key placeKey) { places.Delete(key) }, key)
	}
	return p.(*place)
}

func (p *place) check(table, now string) error {
	if strings.Contains(table, ".") || p.first.CompareAndSwap(nil, &now) {
		return nil
	}
	if first := *p.first.Load(); first != now {
		return fmt.Errorf("%w: %s is a table of %s on this connection, and was one of %s before: name it with its schema in "+
			"Options.Table, and create a new guard", ErrOtherTable, table, now, first)
	}
	return nil
}
