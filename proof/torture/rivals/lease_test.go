// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rivals

import (
	"context"
	"database/sql"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// outage returns an address that accepts every connection and closes it immediately, and the number of these connections.
func outage(t *testing.T) (addr string, accepted *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	accepted = new(atomic.Int64)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			accepted.Add(1)
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		serving.Wait()
	})
	return l.Addr().String(), accepted
}

// leasing returns the clients whose locks are leases, connected to an address.
func leasing(t *testing.T, addr string) map[string]worker.Client {
	t.Helper()
	spec := &worker.Spec{Servers: []string{addr}, Timeout: 4e9}
	db, err := sql.Open("pgx", rowLockSource(spec))
	require.NoError(t, err)
	return map[string]worker.Client{
		"redsync": newRedsync(spec),
		"redlock": newRedsync(&worker.Spec{Servers: slices.Repeat([]string{addr}, 5), Timeout: spec.Timeout}),
		"setnx":   &setNXClient{client: connect(spec, addr), ttl: 4 * time.Second},
		"rowlock": &rowLockClient{db: db, ttl: 4 * time.Second},
	}
}

func TestAcquireRetriesDuringOutage(t *testing.T) {
	addr, accepted := outage(t)
	for name, c := range leasing(t, addr) {
		before := accepted.Load()
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := c.Acquire(ctx, "lock", "/a")
			failed <- err
		}()
		require.Eventually(t, func() bool { return accepted.Load()-before > 3 }, time.Minute, time.Millisecond, name)
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled, name)
		c.Close()
	}
}

func TestTryReportsAnOutage(t *testing.T) {
	addr, _ := outage(t)
	for name, c := range leasing(t, addr) {
		_, err := c.Acquire(t.Context(), "try", "/a")
		require.Error(t, err, name)
		require.NotErrorIs(t, err, worker.ErrHeld, name)
		require.NotErrorIs(t, err, context.DeadlineExceeded, name)
		c.Close()
	}
}
