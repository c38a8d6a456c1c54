// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
)

// SQL is a server of databases: they cost little, and what takes time is the server. So tests share one, and each has a
// database of its own.
type SQL struct {
	*Server

	dsn    func(addr, database string) string
	admin  func(addr string) (*sql.DB, error) // for what is done from without the databases of tests
	create string                             // makes one, whose name is put behind
	made   atomic.Int64
}

// DSN says how to connect to database, in the words of the drivers "pgx" and "postgres" for PostgreSQL, and "mysql" for
// MariaDB.
func (s *SQL) DSN(database string) string { return s.DSNThrough(s.Addr, database) }

// DSNThrough returns the DSN for clients that reach the server at another address, such as a proxy's.
func (s *SQL) DSNThrough(addr, database string) string { return s.dsn(addr, database) }

// CreateDatabase makes an empty database and returns its name. In PostgreSQL it is a schema, which takes a tenth of the
// time; a client that connects with the DSN finds nothing else.
func (s *SQL) CreateDatabase(ctx context.Context) (string, error) {
	name := fmt.Sprintf("test_%d", s.made.Add(1))
	err := s.asAdmin(func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, s.create+name)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("create database %s in %s on %s: %w", name, s.name, s.Addr, err)
	}
	return name, nil
}

// serves checks the server's data folder, by the setting of the given name: another program may have taken our port before
// the server did.
func (s *SQL) serves(ctx context.Context, folder string) error {
	return s.asAdmin(func(db *sql.DB) error {
		var dir string
		if err := db.QueryRowContext(ctx, folder).Scan(&dir); err != nil {
			return err
		}
		if filepath.Clean(dir) != s.data() {
			return fmt.Errorf("another server, with its data in %s, has the port", dir)
		}
		return nil
	})
}

func (s *SQL) asAdmin(do func(*sql.DB) error) error {
	db, err := s.admin(s.Addr)
	if err != nil {
		return err
	}
	return errors.Join(do(db), db.Close())
}
