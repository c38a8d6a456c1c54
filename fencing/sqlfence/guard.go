// SPDX-License-Identifier: Apache-2.0

package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/internal/names"
)

// Options for [New]; zero fields mean the default.
type Options struct {
	_ struct{}

	// Table is the fence's table, in the schema or database that the connection is in: lower-case letters, digits and
	// underscores, not more than 48. Default: DefaultTable.
	Table string

	// Isolation of the transactions. Every level is safe; where the database cannot serialize it says so with an error,
	// and nothing is kept. Default: the database's own.
	Isolation sql.IsolationLevel
}

// A Guard admits writes to the resources of one database, each of which has a row in the fence's table. It keeps
// nothing in memory: any number of guards, in any number of processes, are one. All methods may be called concurrently.
type Guard struct {
	db      *sql.DB
	dialect Dialect
	table   string
	tx      *sql.TxOptions
	sql     statements
}

var tableName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,47}$`)

// New returns the guard of what is in db. opts may be nil. It does not speak to the database; the table is yours to make,
// with [Migration].
func New(db *sql.DB, dialect Dialect, opts *Options) (*Guard, error) {
	if db == nil {
		return nil, errors.New("sqlfence: new guard: the database is nil")
	}
	if !dialect.valid() {
		return nil, fmt.Errorf("sqlfence: new guard: unknown dialect %d, want PostgreSQL, MySQL or SQLite", int(dialect))
	}
	g := &Guard{db: db, dialect: dialect, table: DefaultTable, tx: &sql.TxOptions{}}
	if opts != nil {
		g.tx.Isolation = opts.Isolation
		if opts.Table != "" {
			g.table = opts.Table
		}
	}
	if !tableName.MatchString(g.table) {
		return nil, fmt.Errorf("sqlfence: new guard: table %q is not a name of 1 to 48 characters from a to z, 0 to 9 and _, "+
			"with no digit in front", g.table)
	}
	g.sql = dialect.statements(g.table)
	return g, nil
}

// Do runs write in a transaction that holds the fence of resource, and commits. Until the transaction ends no other token
// is admitted, so a newer one comes before all of write or after all of it; it waits, and so does Do, until ctx is done
// or the database gives up.
//
// When a newer token has been admitted, write does not run and the error is a [*fencing.StaleError]. Whatever write
// returns is returned, wrapped, after a rollback; so is the end of ctx, and a panic of write goes through. In all these
// cases nothing is kept, and the token has not been admitted. An error with [ErrUncertain] says that the commit's answer
// was lost.
//
// write must use tx and nothing else, neither commit nor roll it back, and with MySQL run no statement that commits by
// itself, such as CREATE TABLE: Do then returns [ErrTxEnded], unless write fails besides. It returns the errors of its
// statements: after one, PostgreSQL keeps nothing, and a driver that is asked to commit all the same has no good word for
// that. write runs once, in the caller's goroutine.
func (g *Guard) Do(ctx context.Context, resource string, token fencing.Token, write func(tx *sql.Tx) error) error {
	fail := func(err error) error {
		return fmt.Errorf("sqlfence: write %.512q with token %d: %w", resource, int64(token), err)
	}
	if err := names.Check(resource); err != nil {
		return fail(err)
	}
	if !token.Valid() {
		return fail(fencing.ErrInvalid)
	}
	if write == nil {
		return fail(errors.New("the function is nil"))
	}
	asked := false
	err := inTx(ctx, g.db, g.tx, func(tx *sql.Tx) error {
		newest, number, err := g.raise(ctx, tx, resource, token)
		if err != nil {
			return fmt.Errorf("ask the fence: %w", err)
		}
		asked = true
		// The rollback takes back the row that a refused token has put in or touched.
		if token < newest {
			return &fencing.StaleError{Token: token, Newest: newest}
		}
		return g.whole(ctx, tx, number, write)
	})
	if err != nil && !asked {
		err = g.explain(ctx, err)
	}
	if err != nil {
		return fail(err)
	}
	return nil
}

// raise makes token the newest if it is, holds the row in either case, and returns the newest, and the number of the
// transaction if the database has one.
func (g *Guard) raise(ctx context.Context, tx *sql.Tx, resource string, token fencing.Token) (newest fencing.Token, number int64, err error) {
	if g.sql.returns {
		row := []any{&newest}
		if g.sql.number != "" {
			row = append(row, &number)
		}
		err = tx.QueryRowContext(ctx, g.sql.raise, resource, int64(token)).Scan(row...)
		return newest, number, err
	}
	if _, err := tx.ExecContext(ctx, g.sql.raise, resource, int64(token), int64(token)); err != nil {
		return 0, 0, err
	}
	err = tx.QueryRowContext(ctx, g.sql.held, resource).Scan(&newest)
	return newest, 0, err
}

// whole runs write, and says so when the transaction has not outlived it.
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
	// The database has an answer for a savepoint that is not there, and none where it cannot be asked. What the driver makes
	// of either has no common name.
	var one int
	if lost := tx.QueryRowContext(ctx, "SELECT 1").Scan(&one); lost != nil {
		return fmt.Errorf("before the commit: %w: %w", ErrUncertain, err)
	}
	return fmt.Errorf("%w: %w", ErrTxEnded, err)
}

// same fails if tx is not the transaction any more that the fence was raised in.
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

// Newest returns the newest token admitted for resource, or zero if there is none. It is out of date when it returns:
// it is for reports. To decide, call Do.
func (g *Guard) Newest(ctx context.Context, resource string) (fencing.Token, error) {
	err := names.Check(resource)
	var newest fencing.Token
	if err == nil {
		err = g.db.QueryRowContext(ctx, g.sql.newest, resource).Scan(&newest)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, nil
		}
		err = g.explain(ctx, err)
	}
	if err != nil {
		return 0, fmt.Errorf("sqlfence: newest token of %.512q: %w", resource, err)
	}
	return newest, nil
}

// Reset makes newest the newest token of resource, whatever it was; zero admits any. It is for an operator whose ensemble
// was restored or wiped and grants lower tokens now, and safe under the condition that [fencing.Gate.Reset] names:
// nobody who was granted a token before can still write. An error with [ErrUncertain] means that it may have happened;
// to do it again does no harm then.
func (g *Guard) Reset(ctx context.Context, resource string, newest fencing.Token) error {
	fail := func(err error) error {
		return fmt.Errorf("sqlfence: reset %.512q to token %d: %w", resource, int64(newest), err)
	}
	if err := names.Check(resource); err != nil {
		return fail(err)
	}
	if newest < 0 {
		return fail(fencing.ErrInvalid)
	}
	args := []any{resource, int64(newest)}
	if g.dialect == MySQL {
		args = append(args, int64(newest))
	}
	err := inTx(ctx, g.db, g.tx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, g.sql.set, args...)
		return err
	})
	if err = g.explain(ctx, err); err != nil {
		return fail(err)
	}
	return nil
}

// explain adds to err what to do when it came of a missing table. It asks the database for the table, in a transaction
// of no one's: the words in which a statement's failure is told differ with database, driver and language.
func (g *Guard) explain(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, ErrUncertain) {
		return err
	}
	var one int
	if missing := g.db.QueryRowContext(ctx, g.sql.exists).Scan(&one); !errors.Is(missing, sql.ErrNoRows) {
		return err
	}
	return fmt.Errorf("%w: %w; run this migration:\n%s", err, ErrNoTable, g.Migration())
}
