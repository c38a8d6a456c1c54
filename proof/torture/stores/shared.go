// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// Shared is one server for all tests of a process. The first call of Server starts it. Each test should use its own database,
// and must not stop the server. TestMain must Close it. Run is required.
type Shared struct {
	// Run starts the server: RunPostgres or RunMariaDB.
	Run func(ctx context.Context, opts *Options) (*SQL, error)

	once   sync.Once
	server *SQL
	err    error
}

// Server returns the server. It fails tb on error, or skips it if the server is not installed.
func (s *Shared) Server(tb testing.TB) *SQL {
	tb.Helper()
	// The server outlives the first test, which starts it.
	s.once.Do(func() { s.server, s.err = s.Run(context.WithoutCancel(tb.Context()), nil) })
	if s.err != nil {
		unstarted(tb, s.err)
	}
	return s.server
}

// Close ends the server if it was started.
func (s *Shared) Close() error {
	s.once.Do(func() { s.err = errors.New("closed") }) // later calls of Server do not start it
	if s.server == nil {
		return nil
	}
	return s.server.Close()
}
