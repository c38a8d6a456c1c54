// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/redisfence"
	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
)

func TestFenceOfRedisSurvivesKillWithAppendOnlyFile(t *testing.T) {
	server := stores.Redis(t, &stores.Options{Args: []string{"--appendfsync", "always"}})
	for token := fencing.Token(7); token < 12; token++ {
		r := registersOf(t, goRedis(t, server.Addr), "")
		require.NoError(t, r.Write(t.Context(), "ledger", token, token.String()))
		require.NoError(t, server.Kill(t.Context()))
		require.NoError(t, server.Start(t.Context()))
		r = registersOf(t, goRedis(t, server.Addr), "")
		var stale *fencing.StaleError
		require.ErrorAs(t, r.Write(t.Context(), "ledger", token-1, "stale"), &stale)
		require.Equal(t, fencing.StaleError{Token: token - 1, Newest: token}, *stale)
		value, err := r.Value(t.Context(), "ledger")
		require.NoError(t, err)
		require.Equal(t, token.String(), value)
	}
}

func TestRestartOfRedisWithoutAppendOnlyFileLosesTheFence(t *testing.T) {
	server := stores.Redis(t, &stores.Options{Args: []string{"--appendonly", "no"}})
	require.NoError(t, registersOf(t, goRedis(t, server.Addr), "").Write(t.Context(), "ledger", 9, "nine"))
	require.NoError(t, server.Kill(t.Context()))
	require.NoError(t, server.Start(t.Context()))
	require.NoError(t, registersOf(t, goRedis(t, server.Addr), "").Write(t.Context(), "ledger", 8, "stale"), "older than 9, and admitted")
}

// The documentation warns of this. The replica is promoted while the master still accepts writes, as it does for clients on its
// side of a network partition.
func TestReplicaThatIsPromotedWithoutTheWriteAdmitsAnOlderToken(t *testing.T) {
	master := stores.Redis(t, &stores.Options{Args: []string{"--repl-diskless-sync-delay", "0"}})
	host, port, err := net.SplitHostPort(master.Addr)
	require.NoError(t, err)
	replica := stores.Redis(t, &stores.Options{Args: []string{"--replicaof", host, port}})
	first, second := dial(t, master.Addr), dial(t, replica.Addr)
	require.Eventually(t, func() bool {
		info, err := second.Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	}, 10*time.Second, 5*time.Millisecond)

	before, after := registersOf(t, evalOf(first), ""), registersOf(t, evalOf(second), "")
	require.NoError(t, before.Write(t.Context(), "ledger", 7, "seven"))
	require.EqualValues(t, 1, waitFor(t, first, 10_000), "the replica has the write")
	err = after.Write(t.Context(), "ledger", 9, "unwanted")
	require.ErrorContains(t, err, "READONLY", "a replica rejects writes")
	require.NotErrorIs(t, err, redisfence.ErrUncertain)

	require.NoError(t, second.ReplicaOf(t.Context(), "NO", "ONE").Err())
	require.NoError(t, before.Write(t.Context(), "ledger", 9, "nine"), "the old master acknowledges the write")
	require.Zero(t, waitFor(t, first, 50), "WAIT counts no replica")
	require.NoError(t, master.Kill(t.Context()))

	require.ErrorIs(t, after.Write(t.Context(), "ledger", 6, "stale"), fencing.ErrStale, "older than 7, which was replicated")
	require.NoError(t, after.Write(t.Context(), "ledger", 8, "stale"), "older than 9, and admitted")
}

// waitFor returns how many replicas have all writes, after at most the given time.
func waitFor(t *testing.T, client *redis.Client, milliseconds int) int64 {
	t.Helper()
	n, err := client.Do(t.Context(), "WAIT", 1, milliseconds).Int64()
	require.NoError(t, err)
	return n
}

func TestEvictionLosesTheFenceUnlessThePolicyExcludesIt(t *testing.T) {
	client := dial(t, stores.Redis(t, nil).Addr)
	r := registersOf(t, evalOf(client), "")
	config := func(name, value string) { require.NoError(t, client.ConfigSet(t.Context(), name, value).Err()) }
	for policy, kept := range map[string]bool{"noeviction": true, "volatile-lru": true, "allkeys-lru": false} {
		require.NoError(t, r.Reset(t.Context(), "ledger"))
		require.NoError(t, r.Write(t.Context(), "ledger", 9, "nine"))
		config("maxmemory-policy", policy)
		config("maxmemory", "1")
		err := r.Write(t.Context(), "ledger", 10, "ten")
		require.ErrorContains(t, err, "OOM", policy)
		require.NotErrorIs(t, err, redisfence.ErrUncertain)
		config("maxmemory", "0")
		if kept {
			require.ErrorIs(t, r.Write(t.Context(), "ledger", 8, "stale"), fencing.ErrStale, policy)
			require.NoError(t, r.Write(t.Context(), "ledger", 9, "nine"), "10 was not admitted")
		} else {
			require.NoError(t, r.Write(t.Context(), "ledger", 8, "stale"), policy)
		}
	}
}

// A losingConn is a connection that loses the first answer to a script, if lose is set.
type losingConn struct {
	net.Conn
	lose *atomic.Bool
}

func (m losingConn) Write(b []byte) (int, error) {
	n, err := m.Conn.Write(b)
	if err == nil && strings.Contains(string(b), "\r\neval\r\n") && m.lose.CompareAndSwap(true, false) {
		_, _ = m.Read(make([]byte, 1)) // the script has run
		return n, errors.Join(io.ErrUnexpectedEOF, m.Close())
	}
	return n, err
}

func TestLostAnswerOfRedisIsNeitherStaleNorSuccess(t *testing.T) {
	server := stores.Redis(t, nil)
	var lose atomic.Bool
	client := redis.NewClient(&redis.Options{
		MaxRetries: -1,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", server.Addr)
			return losingConn{conn, &lose}, err
		},
	})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	r := registersOf(t, evalOf(client), "")
	require.NoError(t, r.Write(t.Context(), "ledger", 7, "seven"))
	lose.Store(true)
	err := r.Write(t.Context(), "ledger", 9, "nine")
	require.False(t, lose.Load())
	require.ErrorIs(t, err, redisfence.ErrUncertain)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NotErrorIs(t, err, fencing.ErrStale)
	require.ErrorIs(t, r.Write(t.Context(), "ledger", 8, "stale"), fencing.ErrStale, "the script has run")

	require.NoError(t, server.Kill(t.Context()))
	err = r.Write(t.Context(), "ledger", 9, "unwanted")
	require.ErrorIs(t, err, redisfence.ErrUncertain, "the client does not report whether the script was sent")
	require.NotErrorIs(t, err, fencing.ErrStale)
}
