// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"bytes"
	"context"
	"database/sql"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/sqlfence"
)

// A setup is one database, with entries through a proxy and directly.
type setup struct {
	client
	source
	proxy  *docker.Proxy
	writer *entries // through the proxy
	others *entries // directly
	// loseCommit makes the proxy drop the answer to the next commit, and all later answers.
	loseCommit atomic.Bool
}

func newSetup(t *testing.T, c client, setting string) *setup {
	t.Helper()
	s := &setup{client: c, source: c.empty(t)}
	proxy, err := docker.NewProxy(c.server.Server(t).Addr)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	s.proxy = proxy
	s.writer = entriesIn(t, c.through(t, s.source, s.watch(t)).with(setting), nil)
	s.others = entriesIn(t, s.source, nil)
	return s
}

// loseNextCommit makes the answer to the next commit get lost. One more answer comes between the function and the commit, and
// must arrive.
func (s *setup) loseNextCommit() { s.loseCommit.Store(true) }

// watch listens in front of the proxy and detects commits. It returns its address.
func (s *setup) watch(t *testing.T) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var open sync.WaitGroup
	open.Go(func() {
		for {
			writer, err := listener.Accept()
			if err != nil {
				return // closed
			}
			server, err := net.Dial("tcp", s.proxy.Addr())
			if err != nil {
				_ = writer.Close()
				continue
			}
			for _, way := range []struct {
				to   net.Conn
				from io.Reader
			}{{server, watched{writer, s}}, {writer, server}} {
				open.Go(func() {
					_, _ = io.Copy(way.to, way.from) // ends with either connection, and closes both
					_ = writer.Close()
					_ = server.Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		s.proxy.Reset()
		open.Wait()
	})
	return listener.Addr().String()
}

// watched reads what a writer sends, and detects commits.
type watched struct {
	io.Reader
	setup *setup
}

func (w watched) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	if bytes.Contains(bytes.ToUpper(b[:n]), []byte("COMMIT")) && w.setup.loseCommit.CompareAndSwap(true, false) {
		w.setup.proxy.Drop(docker.ToClient)
	}
	return n, err
}

// write writes with token 7, and calls lose between the write and the commit.
func (s *setup) write(ctx context.Context, t *testing.T, lose func(tx *sql.Tx)) error {
	t.Helper()
	return s.writer.guard.Do(ctx, "ledger", 7, func(tx *sql.Tx) error {
		require.NoError(t, put(ctx, tx, s.writer.dialect, "ledger", "seven"))
		lose(tx)
		return nil
	})
}

// committed waits until other connections read the write.
func (s *setup) committed(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		value, err := s.others.Value(t.Context(), "ledger")
		return err == nil && value == "seven"
	}, 10*time.Second, time.Millisecond)
}

// requireRolledBack requires that the write was rolled back.
func (s *setup) requireRolledBack(t *testing.T) {
	t.Helper()
	// The server needs time to detect the lost connection's transaction, and connections of the pool may have ended with the
	// server.
	require.Eventually(t, func() bool {
		newest, err := s.others.guard.Newest(t.Context(), "ledger")
		return err == nil && newest == 0
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, s.others.Write(t.Context(), "ledger", 1, "one"), "token 7 has not been admitted")
	value, err := s.others.Value(t.Context(), "ledger")
	require.NoError(t, err)
	require.Equal(t, "one", value)
}

// requireUncertain requires an error that reports an unknown outcome.
func requireUncertain(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, sqlfence.ErrUncertain)
	require.NotErrorIs(t, err, fencing.ErrStale)
	require.NotErrorIs(t, err, sqlfence.ErrTxEnded)
}

func TestCommitWhoseAnswerIsLostIsUncertainAndKept(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			s := newSetup(t, c, "")
			wrote := make(chan error, 1)
			go func() { wrote <- s.write(t.Context(), t, func(*sql.Tx) { s.loseNextCommit() }) }()
			s.committed(t)
			s.proxy.Reset()
			requireUncertain(t, <-wrote)
			require.ErrorIs(t, s.others.Write(t.Context(), "ledger", 6, "six"), fencing.ErrStale)
			s.proxy.Heal()
			require.NoError(t, s.writer.Write(t.Context(), "ledger", 7, "seven again"), "the same token is admitted")
		})
	}
}

// The commit is not answered and the connection stays open, so the driver must time out.
func TestUnansweredCommitIsUncertainWhenTheDriverTimesOut(t *testing.T) {
	for _, c := range []struct {
		client
		setting string
		patient bool // the driver ignores the context
	}{
		{client: pgx},
		{client: maria, setting: "readTimeout=300ms", patient: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSetup(t, c.client, c.setting)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			wrote := make(chan error, 1)
			go func() { wrote <- s.write(ctx, t, func(*sql.Tx) { s.loseNextCommit() }) }()
			s.committed(t)
			if !c.patient {
				cancel()
			}
			requireUncertain(t, <-wrote)
		})
	}
}

func TestConnectionLostBeforeTheCommitIsUncertainAndNothingIsKept(t *testing.T) {
	end := map[sqlfence.Dialect][2]string{
		sqlfence.PostgreSQL: {"SELECT pg_backend_pid()", "SELECT pg_terminate_backend(?)"},
		sqlfence.MySQL:      {"SELECT CONNECTION_ID()", "KILL CONNECTION ?"},
	}
	for name, lose := range map[string]func(*testing.T, *setup, *sql.Tx){
		"the network ends it": func(_ *testing.T, s *setup, _ *sql.Tx) { s.proxy.Reset() },
		"an administrator ends it": func(t *testing.T, s *setup, tx *sql.Tx) {
			t.Helper()
			var id int64
			require.NoError(t, tx.QueryRowContext(t.Context(), end[s.others.dialect][0]).Scan(&id))
			_, err := s.others.db.ExecContext(t.Context(), dialected(s.others.dialect, end[s.others.dialect][1]), id)
			require.NoError(t, err)
		},
		"the server dies": func(t *testing.T, s *setup, _ *sql.Tx) {
			t.Helper()
			require.NoError(t, s.server.Server(t).Kill(t.Context()))
		},
	} {
		for _, c := range clients {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				s := newSetup(t, c, "")
				requireUncertain(t, s.write(t.Context(), t, func(tx *sql.Tx) { lose(t, s, tx) }))
				require.NoError(t, c.server.Server(t).Start(t.Context()))
				s.requireRolledBack(t)
			})
		}
	}
}

func TestStatementOnALostConnectionReturnsItsErrorAndKeepsNothing(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			s := newSetup(t, c, "")
			err := s.writer.guard.Do(t.Context(), "ledger", 7, func(tx *sql.Tx) error {
				require.NoError(t, put(t.Context(), tx, c.dialect, "ledger", "seven"))
				s.proxy.Reset()
				return put(t.Context(), tx, c.dialect, "ledger", "seven")
			})
			require.Error(t, err)
			require.NotErrorIs(t, err, sqlfence.ErrUncertain)
			require.NotErrorIs(t, err, sqlfence.ErrTxEnded)
			require.NotErrorIs(t, err, fencing.ErrStale)
			s.requireRolledBack(t)
		})
	}
}

func TestUnreachableDatabaseIsNeitherStaleNorUncertain(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			s := newSetup(t, c, "")
			s.proxy.Refuse()
			err := s.write(t.Context(), t, func(*sql.Tx) { require.Fail(t, "the function runs") })
			require.Error(t, err)
			for _, wrong := range []error{sqlfence.ErrUncertain, sqlfence.ErrTxEnded, sqlfence.ErrNoTable, fencing.ErrStale} {
				require.NotErrorIs(t, err, wrong)
			}
		})
	}
}
