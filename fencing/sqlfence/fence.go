// SPDX-License-Identifier: Apache-2.0

package sqlfence

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// A fence is the row of one resource, as the transaction sees it that holds it.
type fence struct {
	newest  fencing.Token
	history string
	number  int64  // of the transaction, if the database has one
	place   string // the table that its name means on this connection
}

// raise makes token the newest of resource if it is, holds the row in either case, and returns it.
func (g *Guard) raise(ctx context.Context, q Querier, resource string, token fencing.Token) (fence, error) {
	return g.ask(ctx, q, g.sql.raise, g.dialect.raiseArgs(resource, token, g.history), resource)
}

// ask sends statement, which is raise or set, and returns the row of resource that it leaves.
func (g *Guard) ask(ctx context.Context, q Querier, statement string, args []any, resource string) (f fence, err error) {
	if g.sql.held != "" {
		if err := q.Exec(ctx, statement, args...); err != nil {
			return fence{}, err
		}
		statement, args = g.sql.held, []any{g.dialect.name(resource)}
	}
	// Not into f.newest: not every driver knows a number by its kind.
	var newest int64
	err = q.QueryRow(ctx, statement, args...).Scan(&newest, &f.history, &f.number, &f.place)
	f.newest = fencing.Token(newest)
	return f, err
}

// judge returns why f, whose row was raised with token, does not admit it, or nil.
func (g *Guard) judge(f fence, token fencing.Token) error {
	if err := g.place.check(g.table, f.place); err != nil {
		return err
	}
	if g.history != "" && f.history != "" && f.history != g.history {
		return &fencing.HistoryError{Token: token, Given: g.history, Stored: f.history}
	}
	if token < f.newest {
		return &fencing.StaleError{Token: token, Newest: f.newest}
	}
	return nil
}

// A place is the table that a guard's table was the first time. A name without a schema can mean another one on another
// connection of the pool, with rows of its own, in which no token was admitted.
type place struct{ first atomic.Pointer[string] }

func (p *place) check(table, now string) error {
	if strings.Contains(table, ".") || p.first.CompareAndSwap(nil, &now) {
		return nil
	}
	if first := *p.first.Load(); first != now {
		return fmt.Errorf("%w: %s is a table of %s on this connection, and was one of %s before: name it with its schema, in "+
			"Options.Table, and make a new guard", ErrOtherTable, table, now, first)
	}
	return nil
}
