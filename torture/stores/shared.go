// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// Shared is one server for all tests of a process: the first that asks for it starts it. Each test should have a database
// of its own in it, and leave the server running. The main function of the tests must Close it. Run is required.
type Shared struct {
	// Run starts it: RunPostgres, RunMariaDB.
	Run func(ctx context.Context, opts *Options) (*SQL, error)

	once   sync.Once
	server *SQL
	err    error
}

// Server returns the server. It fails tb on error, or skips it where the server is not installed.
func (s *Shared) Server(tb testing.TB) *SQL {
	tb.Helper()
	// Its start is the first test's, and its life is not.
	s.once.Do(func() { s.server, s.err = s.Run(context.WithoutCancel(tb.Context()), nil) })
	if s.err != nil {
		unstarted(tb, s.err)
	}
	return s.server
}

// Close ends the server if it was started.
func (s *Shared) Close() error {
	s.once.Do(func() { s.err = errors.New("closed") }) // no caller starts it any more
	if s.server == nil {
		return nil
	}
	return s.server.Close()
}
