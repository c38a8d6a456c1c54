// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/fencetest"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

func TestGuardOnAServerIsAGuard(t *testing.T) {
	for _, way := range []struct {
		client
		isolation sql.IsolationLevel
		setting   string
	}{
		{client: pgx},
		{client: pgx, isolation: sql.LevelSerializable},
		{client: pq},
		{client: maria},
		{client: maria, isolation: sql.LevelReadCommitted},
		{client: maria, isolation: sql.LevelSerializable},
		// What later versions do by themselves.
		{client: maria, setting: "innodb_snapshot_isolation=ON"},
		// The driver puts the arguments into the statement's text; in others they travel apart from it.
		{client: maria, setting: "interpolateParams=true"},
	} {
		t.Run(way.name+" "+way.isolation.String()+" "+way.setting, func(t *testing.T) {
			t.Parallel()
			fencetest.Run(t, func(t *testing.T) fencetest.Subject {
				t.Helper()
				s := subject(way.empty(t).with(way.setting), &sqlfence.Options{Isolation: way.isolation})
				if way.dialect == sqlfence.PostgreSQL && way.isolation == sql.LevelSerializable {
					return persistent(s)
				}
				return s
			})
		})
	}
}

// persistent retries every write until the database can serialize it, as a caller that requires serializability must.
func persistent(s fencetest.Subject) fencetest.Subject {
	open := s.Open
	s.Open = func(t *testing.T) fencetest.Guarded {
		t.Helper()
		return again{open(t)}
	}
	openHistory := s.OpenHistory
	s.OpenHistory = func(t *testing.T, history string) fencetest.Guarded {
		t.Helper()
		return again{openHistory(t, history)}
	}
	return s
}

type again struct{ fencetest.Guarded }

func (a again) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	for {
		err := a.Guarded.Write(ctx, resource, token, value)
		if sqlState(err) != "40001" {
			return err
		}
	}
}

// sqlState is what the database calls the error; "" if it has not said so.
func sqlState(err error) string {
	var answer interface{ SQLState() string }
	if errors.As(err, &answer) {
		return answer.SQLState()
	}
	var maria *mysql.MySQLError
	if errors.As(err, &maria) {
		return string(maria.SQLState[:])
	}
	return ""
}
