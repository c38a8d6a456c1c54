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

// A replyLoss loses the answer to a script.
type replyLoss struct {
	lose atomic.Pointer[func()] // if set: called when the next script has run, whose answer is then lost
}

func (l *replyLoss) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return lossyConn{conn, l}, err
}

// A lossyConn is a connection that loses the answer to a script, if replyLoss.lose is set.
type lossyConn struct {
	net.Conn

	loss *replyLoss
}

func (f lossyConn) Write(b []byte) (int, error) {
	n, err := f.Conn.Write(b)
	if err != nil || !strings.Contains(string(b), "\r\neval\r\n") {
		return n, err
	}
	meanwhile := f.loss.lose.Swap(nil)
	if meanwhile == nil {
		return n, nil
	}
	_, _ = f.Read(make([]byte, 1)) // the script has run
	(*meanwhile)()
	return n, errors.Join(io.ErrUnexpectedEOF, f.Close())
}

// A cluster is one server in cluster mode that has all slots. It can lose the answers to its clients.
type cluster struct {
	replyLoss

	server *stores.Server
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{server: stores.Redis(t, &stores.Options{Args: []string{"--cluster-enabled", "yes"}})}
	client := dial(t, c.server.Addr)
	require.NoError(t, client.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err())
	require.Eventually(t, func() bool {
		info, err := client.ClusterInfo(t.Context()).Result()
		return err == nil && strings.Contains(info, "cluster_state:ok")
	}, 30*time.Second, 5*time.Millisecond)
	return c
}

// client returns a cluster client. It retries although its options forbid that.
func (c *cluster) client(t *testing.T) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:      []string{c.server.Addr},
		MaxRetries: -1,
		Dialer:     c.dial,
	})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func (c *cluster) guard(t *testing.T) *redisfence.Guard {
	t.Helper()
	client := c.client(t)
	guard, err := redisfence.New(func(ctx context.Context, script string, keys []string, args ...any) (any, error) {
		return client.Eval(ctx, script, keys, args...).Result()
	}, nil)
	require.NoError(t, err)
	return guard
}

func TestScriptThatAClusterClientRetriesRunsOnce(t *testing.T) {
	const increase = `return redis.call("INCR", KEYS[1])`
	c := startCluster(t)
	guard, other := c.guard(t), c.guard(t)
	client := dial(t, c.server.Addr)
	do := func(guard *redisfence.Guard, resource string, token fencing.Token) error {
		_, err := guard.Do(t.Context(), resource, token, increase, []string{resource + ":count"})
		return err
	}
	newerWrites := func(t *testing.T, resource string) {
		t.Helper()
		newer := func() { require.NoError(t, do(other, resource, 9)) }
		c.lose.Store(&newer)
	}
	hasRun := func(t *testing.T, resource string, want int) {
		t.Helper()
		require.Nil(t, c.lose.Load(), "the answer was lost")
		n, err := client.Get(t.Context(), resource+":count").Int()
		require.NoError(t, err)
		require.Equal(t, want, n)
	}

	t.Run("and its result is lost", func(t *testing.T) {
		nothing := func() {}
		c.lose.Store(&nothing)
		err := do(guard, "{once}", 7)
		hasRun(t, "{once}", 1)
		require.ErrorIs(t, err, redisfence.ErrUncertain)
		require.NoError(t, do(guard, "{once}", 7), "the same script in another Do is not a retry")
		hasRun(t, "{once}", 2)
	})
	t.Run("and is not stale although a newer one has run since", func(t *testing.T) {
		newerWrites(t, "{stale}")
		err := do(guard, "{stale}", 7)
		hasRun(t, "{stale}", 2)
		require.NotErrorIs(t, err, fencing.ErrStale)
		require.ErrorIs(t, err, redisfence.ErrUncertain)
		require.ErrorIs(t, do(guard, "{stale}", 7), fencing.ErrStale, "this call has not run")
	})
	t.Run("and a reset does not lower the fence twice", func(t *testing.T) {
		newerWrites(t, "{reset}")
		require.NoError(t, guard.Reset(t.Context(), "{reset}", 3))
		hasRun(t, "{reset}", 1)
		require.ErrorIs(t, do(guard, "{reset}", 8), fencing.ErrStale, "9 has written since the reset")
	})
	t.Run("and its record is bounded and expires", func(t *testing.T) {
		fill := `for i = 1, 5000 do redis.call("ZADD", KEYS[1], i, "run " .. i) end return 1`
		runs := redisfence.DefaultPrefix + "{kept}\x00runs"
		require.NoError(t, client.Eval(t.Context(), fill, []string{runs}).Err())
		require.NoError(t, do(guard, "{kept}", 7))
		kept, err := client.ZRange(t.Context(), runs, 0, -1).Result()
		require.NoError(t, err)
		require.Len(t, kept, 4096)
		require.Equal(t, "run 5000", kept[4094], "the oldest were removed")
		left, err := client.TTL(t.Context(), runs).Result()
		require.NoError(t, err)
		require.Greater(t, left, time.Duration(0))
		require.LessOrEqual(t, left, time.Minute)
	})
	t.Run("although the record is full and the server's clock was set back", func(t *testing.T) {
		// The scores are of microseconds, an hour ahead of the clock.
		const fill = `
local now = redis.call("TIME")
local ahead = (now[1] + 3600) * 1000000
for i = 1, 4096 do redis.call("ZADD", KEYS[1], string.format("%.0f", ahead + i), "run " .. i) end
return 1`
		runs := redisfence.DefaultPrefix + "{back}\x00runs"
		require.NoError(t, client.Eval(t.Context(), fill, []string{runs}).Err())
		nothing := func() {}
		for n := range 3 {
			c.lose.Store(&nothing)
			err := do(guard, "{back}", 7)
			hasRun(t, "{back}", n+1)
			require.ErrorIs(t, err, redisfence.ErrUncertain)
			kept, err := client.ZRangeWithScores(t.Context(), runs, 0, -1).Result()
			require.NoError(t, err)
			require.Len(t, kept, 4096)
			require.Equal(t, "run 4096", kept[4094-n].Member, "the newest come after it, in their order")
			require.Equal(t, kept[4094].Score+1, kept[4095].Score)
		}
	})
}
