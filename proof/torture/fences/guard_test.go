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
		// The default of later versions.
		{client: maria, setting: "innodb_snapshot_isolation=ON"},
		// The driver inserts the arguments into the statement's text.
		{client: maria, setting: "interpolateParams=true"},
	} {
		t.Run(way.name+" "+way.isolation.String()+" "+way.setting, func(t *testing.T) {
			t.Parallel()
			fencetest.Run(t, func(t *testing.T) fencetest.Subject {
				t.Helper()
				s := subject(way.empty(t).with(way.setting), &sqlfence.Options{Isolation: way.isolation})
				if way.dialect == sqlfence.PostgreSQL && way.isolation == sql.LevelSerializable {
					return retryingSubject(s)
				}
				return s
			})
		})
	}
}

// retryingSubject retries every write until the database can serialize it, as a caller that requires serializability must.
func retryingSubject(s fencetest.Subject) fencetest.Subject {
	open := s.Open
	s.Open = func(t *testing.T) fencetest.Guarded {
		t.Helper()
		return retrying{open(t)}
	}
	openHistory := s.OpenHistory
	s.OpenHistory = func(t *testing.T, history string) fencetest.Guarded {
		t.Helper()
		return retrying{openHistory(t, history)}
	}
	return s
}

// retrying repeats a write that the database could not serialize.
type retrying struct{ fencetest.Guarded }

func (a retrying) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	for {
		err := a.Guarded.Write(ctx, resource, token, value)
		if sqlState(err) != "40001" {
			return err
		}
	}
}

// sqlState returns the SQLSTATE of a database's error, "" for other errors.
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
