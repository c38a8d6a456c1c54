// SPDX-License-Identifier: Apache-2.0

package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// Options are the options of a Guard. The zero value of a field means its default.
type Options struct {
	_ struct{}

	// Table is the fence's table. Write it with its schema (with MySQL: its database), as in app.lockkeeper_fence: a name
	// without a schema means another table after a SET search_path or a USE, and a pool of connections passes these on to
	// the next caller. Both parts consist of at most 48 lower-case letters, digits and underscores. Default: DefaultTable,
	// without a schema.
	Table string

	// History is the id of the ensemble's history in which the tokens were granted, as Client.History of package recipes
	// returns it. The guard stores it beside each token, and refuses tokens of another history with
	// [fencing.ErrOtherHistory]. Default: histories are neither checked nor changed.
	History string

	// Isolation is the isolation level of the transactions. No level admits a stale token; if the database cannot serialize a
	// transaction it returns an error, and nothing is committed. What the transaction reads depends on it: see the package
	// comment on MySQL. Default: the database's own.
	Isolation sql.IsolationLevel
}

// A Guard admits writes to the resources of one database, each of which has a row in the fence's table. The guard decides by
// that row alone: any number of guards, in any number of processes, act as one. All methods may be called concurrently.
type Guard struct {
	db      *sql.DB
	dialect Dialect
	table   string
	history string
	tx      *sql.TxOptions
	sql     statements
	place   *place
}

var tableName = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,47}\.)?[a-z_][a-z0-9_]{0,47}$`)

// New returns a guard of the resources in db. opts may be nil. New does not contact the database; the application creates
// the table, with [Migration].
func New(db *sql.DB, dialect Dialect, opts *Options) (*Guard, error) {
	if db == nil {
		return nil, errors.New("sqlfence: new guard: the database is nil")
	}
	if !dialect.valid() {
		return nil, fmt.Errorf("sqlfence: new guard: unknown dialect %d, want PostgreSQL, MySQL or SQLite", int(dialect))
	}
	g := &Guard{db: db, dialect: dialect, table: DefaultTable, tx: &sql.TxOptions{}}
	if opts != nil {
		g.tx.Isolation, g.history = opts.Isolation, opts.History
		if opts.Table != "" {
			g.table = opts.Table
		}
	}
	if !tableName.MatchString(g.table) {
		return nil, fmt.Errorf("sqlfence: new guard: table %q is not a valid name: want name or schema.name, each of 1 to 48 "+
			"characters from a to z, 0 to 9 and _, not beginning with a digit", g.table)
	}
	if g.history != "" {
		if err := fencing.CheckHistory(g.history); err != nil {
			return nil, fmt.Errorf("sqlfence: new guard: %w", err)
		}
	}
	g.sql, g.place = dialect.statements(g.table), placeOf(db, g.table)
	return g, nil
}

// Do runs write in a transaction that holds the fence of resource, and commits it. Until the transaction ends no other token
// is admitted, so a write with a newer token precedes all of write or follows all of it. A caller with a newer token waits,
// and so does Do, until ctx is done or the database returns an error.
//
// When a newer token has been admitted, write does not run and the error is a [*fencing.StaleError]; when the stored token
// is of another history than the guard's, it is a [*fencing.HistoryError]. An error of write is returned, wrapped, after a
// rollback; so is the end of ctx. A panic of write rolls back and propagates. In all these cases nothing is committed, and
// the token has not been admitted. An error with [ErrUncertain] means that the outcome of the commit is
// unknown.
//
// write must use tx only and neither commit nor roll it back, and with MySQL run no statement that commits implicitly, such
// as CREATE TABLE: Do then returns [ErrTxEnded], unless write also fails. write must close the rows of its queries, or Do
// returns [ErrRowsOpen]. It must return the errors of its statements: after one, PostgreSQL commits nothing, and drivers
// differ in what they report for the commit. write runs once, in the caller's goroutine. It must not call Do: a second
// resource is admitted to the same transaction with [Guard.Admit]. If a nested Do would wait for the outer one, it returns
// [ErrNested].
func (g *Guard) Do(ctx context.Context, resource string, token fencing.Token, write func(tx *sql.Tx) error) error {
	fail := func(err error) error {
		return fmt.Errorf("sqlfence: write %.512q with token %d: %w", resource, int64(token), err)
	}
	if err := checkArguments(resource, token); err != nil {
		return fail(err)
	}
	if write == nil {
		return fail(errors.New("the function is nil"))
	}
	end, err := g.enter(resource)
	if err != nil {
		return fail(err)
	}
	defer end()
	raised := false
	err = inTx(ctx, g.db, g.tx, func(tx *sql.Tx) error {
		f, err := g.raise(ctx, standard{tx}, resource, token)
		if err != nil {
			return fmt.Errorf("raise the fence: %w", err)
		}
		raised = true
		// The rollback undoes the insertion or change of the row by a refused token.
		if err := g.verdict(f, token); err != nil {
			return err
		}
		return g.whole(ctx, tx, f.number, write)
	})
	if err != nil && !raised {
		err = g.explain(ctx, standard{g.db}, err)
	}
	if err != nil {
		return fail(err)
	}
	return nil
}

func checkArguments(resource string, token fencing.Token) error {
	if err := fencing.CheckResource(resource); err != nil {
		return err
	}
	if !token.Valid() {
		return fencing.ErrInvalid
	}
	return nil
}

// whole runs write, and returns an error if the transaction has ended when write returns.
func (g *Guard) whole(ctx context.Context, tx *sql.Tx, number int64, write func(tx *sql.Tx) error) error {
	if g.sql.mark != "" {
		if _, err := tx.ExecContext(ctx, g.sql.mark); err != nil {
			return fmt.Errorf("mark the transaction: %w", err)
		}
	}
	if err := write(tx); err != nil {
		return err
	}
	err := g.same(ctx, tx, number)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, sql.ErrTxDone):
		return ErrTxEnded
	case errors.Is(err, ErrTxEnded):
		return err
	case failed(err):
		return fmt.Errorf("a statement of the function has failed, and so has the transaction: %w", err)
	}
	// The database answers a request for a missing savepoint with an error, and cannot be queried at all if its connection
	// is lost or busy. Drivers have no common error for either.
	var one int
	if lost := tx.QueryRowContext(ctx, "SELECT 1").Scan(&one); lost != nil {
		return &unverified{err}
	}
	// SQLite does not release a savepoint while a statement is in progress, but rolls back to it.
	if g.dialect == SQLite {
		if _, gone := tx.ExecContext(ctx, g.sql.back); gone == nil {
			return fmt.Errorf("%w: %w", ErrRowsOpen, err)
		}
	}
	return fmt.Errorf("%w: %w", ErrTxEnded, err)
}

// same returns an error if tx is no longer the transaction in which the fence was raised.
func (g *Guard) same(ctx context.Context, tx *sql.Tx, number int64) error {
	if g.sql.number == "" {
		_, err := tx.ExecContext(ctx, g.sql.release)
		return err
	}
	var now int64
	err := tx.QueryRowContext(ctx, g.sql.number).Scan(&now)
	if err == nil && now != number {
		err = ErrTxEnded
	}
	return err
}

// Newest returns the newest token admitted for resource, or zero if there is none. The result may be out of date when it
// returns: use it for reports. To decide, call Do.
func (g *Guard) Newest(ctx context.Context, resource string) (fencing.Token, error) {
	err := fencing.CheckResource(resource)
	if err == nil {
		err = nested(g.db, false)
	}
	var newest fencing.Token
	if err == nil {
		err = g.db.QueryRowContext(ctx, g.sql.newest, g.dialect.name(resource)).Scan(&newest)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, nil
		}
		err = g.explain(ctx, standard{g.db}, err)
	}
	if err != nil {
		return 0, fmt.Errorf("sqlfence: newest token of %.512q: %w", resource, err)
	}
	return newest, nil
}

// Reset makes newest the newest token of resource, whatever it was; zero admits any token. The row gets the history of the
// guard's Options, and none if they have none. Reset is for an operator whose ensemble was wiped, restored or replaced, and
// is safe under the condition of [fencing.Gate.Reset]: no holder of an earlier token can still write. An error with
// [ErrUncertain] means that the reset may have happened; it is then safe to repeat it.
func (g *Guard) Reset(ctx context.Context, resource string, newest fencing.Token) error {
	fail := func(err error) error {
		return fmt.Errorf("sqlfence: reset %.512q to token %d: %w", resource, int64(newest), err)
	}
	if err := fencing.CheckResource(resource); err != nil {
		return fail(err)
	}
	if newest < 0 {
		return fail(fencing.ErrInvalid)
	}
	end, err := g.enter(resource)
	if err != nil {
		return fail(err)
	}
	defer end()
	err = inTx(ctx, g.db, g.tx, func(tx *sql.Tx) error {
		f, err := g.execute(ctx, standard{tx}, g.sql.set, g.dialect.setArgs(resource, newest, g.history), resource)
		if err != nil {
			return err
		}
		if f.newest != newest || f.history != g.history {
			return g.notRaised(f)
		}
		return g.place.check(g.table, f.place)
	})
	if err = g.explain(ctx, standard{g.db}, err); err != nil {
		return fail(err)
	}
	return nil
}

// explain adds to err the migration to run if the table is missing or of an earlier version. It queries the database for the
// table, because the text of a statement's error depends on database, driver and language. q must not be of a transaction
// that failed with err.
func (g *Guard) explain(ctx context.Context, q Querier, err error) error {
	if err == nil || errors.Is(err, ErrUncertain) {
		return err
	}
	var version int
	switch missing := q.QueryRow(ctx, g.sql.version).Scan(&version); {
	case errors.Is(missing, sql.ErrNoRows):
		return fmt.Errorf("%w: %w; run this migration:\n%s", err, ErrNoTable, g.Migration())
	case missing == nil && version < MigrationVersion:
		return fmt.Errorf("%w: %w; run this migration:\n%s", err, ErrOldTable, g.Upgrade())
	}
	return err
}
