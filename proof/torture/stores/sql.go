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

// SQL is a database server. Its start takes long and the creation of a database does not, so tests share one server and each
// creates its own database.
type SQL struct {
	*Server

	dsn    func(addr, database string) string
	admin  func(addr string) (*sql.DB, error) // to connect outside the databases of tests
	create string                             // statement that creates one, without the name
	made   atomic.Int64                       // databases
}

// DSN returns the data source name of a database, for the drivers "pgx" and "postgres" (PostgreSQL) and "mysql" (MariaDB).
func (s *SQL) DSN(database string) string { return s.DSNThrough(s.Addr, database) }

// DSNThrough returns the DSN for clients that reach the server at another address, such as a proxy's.
func (s *SQL) DSNThrough(addr, database string) string { return s.dsn(addr, database) }

// CreateDatabase creates an empty database and returns its name. In PostgreSQL it is a schema, whose creation takes a tenth of
// the time; a client that connects with the DSN sees only that schema.
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

// serves checks the server's data folder with the query folder: another program may have taken the port before the server
// did.
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

// asAdmin calls do with a connection outside the databases of tests.
func (s *SQL) asAdmin(do func(*sql.DB) error) error {
	db, err := s.admin(s.Addr)
	if err != nil {
		return err
	}
	return errors.Join(do(db), db.Close())
}
