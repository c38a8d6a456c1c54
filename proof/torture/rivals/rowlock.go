// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rivals

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// rowLock is a row with an owner and an expiry by the database's clock, as in the table of ShedLock, the most common such lock
// (https://github.com/lukas-krecan/ShedLock, "JdbcTemplate", usingDbTime). A lock of the database that is bound to the connection
// (pg_advisory_lock) is as common. But it does not notify a holder whose connection is half open, and the server releases it
// when it detects that, so the comparison would measure settings of TCP.
//
// The holder counts the time from before its request. Its token is a counter in the row, which rises with each acquisition. A
// release does not delete the row, because the counter would restart.
type rowLock struct{}

// rowLockTable creates the table.
const rowLockTable = `CREATE TABLE locks (
	name text PRIMARY KEY, owner text NOT NULL, expires timestamptz NOT NULL, token bigint NOT NULL
)`

func (rowLock) Supports(how string) bool { return how != "campaign" }
func (rowLock) Reason(err error) string  { return why(err) }

func (rowLock) Connect(ctx context.Context, spec *worker.Spec) (worker.Client, error) {
	db, err := sql.Open("pgx", rowLockSource(spec))
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("postgres: %w", err), db.Close())
	}
	return &rowLockClient{db: db, ttl: time.Duration(spec.Timeout)}, nil
}

func rowLockSource(spec *worker.Spec) string {
	return "postgres://postgres@" + spec.Servers[0] + "/postgres?sslmode=disable"
}

type rowLockClient struct {
	tenant
	db  *sql.DB
	ttl time.Duration
}

func (c *rowLockClient) Close() {
	c.leave()
	_ = c.db.Close() // no request follows
}

// exec reports whether a statement changed one row.
func (c *rowLockClient) exec(ctx context.Context, query string, args ...any) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.ttl/4)
	defer cancel()
	result, err := c.db.ExecContext(ctx, query, args...)
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	return rows == 1, err
}

// take tries to acquire the row. It returns the token, or 0 if another client has the row.
func (c *rowLockClient) take(ctx context.Context, path, owner string) (token history.ID, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.ttl/4)
	defer cancel()
	err = c.db.QueryRowContext(ctx, `
		INSERT INTO locks (name, owner, expires, token) VALUES ($1, $2, clock_timestamp() + $3 * interval '1 millisecond', 1)
		ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires = excluded.expires, token = locks.token + 1
		WHERE locks.expires <= clock_timestamp()
		RETURNING token`, path, owner, c.ttl.Milliseconds()).Scan((*int64)(&token))
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return token, err
}

func (c *rowLockClient) Acquire(ctx context.Context, how, path string) (worker.Hold, error) {
	lasts := c.ttl - drift(c.ttl)
	for {
		// Each attempt has its own owner: the release that follows an attempt may arrive late, and must not release a later one.
		owner := rand.Text()
		release := func(ctx context.Context) error {
			_, err := c.exec(ctx, `UPDATE locks SET expires = '-infinity' WHERE name = $1 AND owner = $2`, path, owner)
			return err
		}
		until := time.Now().Add(lasts)
		token, err := c.take(ctx, path, owner)
		ours := token != 0
		if ours && time.Now().Before(until) {
			l := keep(until, c.ttl, func(ctx context.Context) (time.Time, error) {
				until := time.Now().Add(lasts)
				kept, err := c.exec(ctx, `
					UPDATE locks SET expires = clock_timestamp() + $3 * interval '1 millisecond'
					WHERE name = $1 AND owner = $2 AND expires > clock_timestamp()`, path, owner, c.ttl.Milliseconds())
				if err == nil && !kept {
					err = errGone
				}
				return until, err
			}, release)
			l.token = token
			return c.has(l), nil
		}
		if ours || err != nil {
			_ = release(context.WithoutCancel(ctx)) // if it fails, the lock expires
		}
		if err := retry(ctx, how, err); err != nil {
			return nil, err
		}
	}
}
