// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/zktest"
	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// attachRaw connects to a server and sends a handshake that asks for the timeout: for a new
// session, or for that of an earlier answer.
func attachRaw(t *testing.T, e *zktest.Ensemble, server int, asked time.Duration, of *rawclient.ConnectReply) (*rawclient.Conn, rawclient.ConnectReply) {
	t.Helper()
	conn, err := e.Dial(t.Context(), "tcp", e.Server(server).Addr())
	require.NoError(t, err)
	c := rawclient.New(conn)
	req := handshake
	req.Timeout = int32(asked.Milliseconds()) //nolint:gosec // seconds
	if of != nil {
		req.Session, req.Password = of.Session, of.Password
	}
	reply, err := c.Connect(req, maxWait)
	require.NoError(t, err)
	require.NotZero(t, reply.Session)
	return c, reply
}

func TestReattachedSessionHasTheTimeoutOfItsLastHandshake(t *testing.T) {
	for _, c := range []struct{ first, asked, granted time.Duration }{
		{10 * time.Second, 2 * time.Second, 2 * time.Second},
		{2 * time.Second, 10 * time.Second, 10 * time.Second},
		{2 * time.Second, time.Millisecond, time.Second},
		{2 * time.Second, time.Hour, 10 * time.Second},
	} {
		for _, server := range []int{1, 2} { // the leader, and a follower
			faketime.Test(t, func(t *testing.T) {
				e := inMemory(t, zktest.Options{Servers: 3})
				conn, first := attachRaw(t, e, 3, c.first, nil)
				require.NoError(t, conn.Close())
				conn, again := attachRaw(t, e, server, c.asked, &first)
				require.Equal(t, first.Session, again.Session)
				require.Equal(t, c.granted.Milliseconds(), int64(again.Timeout))
				require.Equal(t, c.granted, e.Sessions()[0].Timeout)

				began := time.Now()
				require.NoError(t, conn.Send(request(wire.XidPing, wire.OpPing, nil))) // a ping: it renews the session by as much
				_, err := conn.Next(maxWait)
				require.NoError(t, err)
				require.NoError(t, conn.Close())
				waitFor(t, "the session has expired", func() bool { return len(e.Sessions()) == 0 })
				// Expiry takes up to a tick more, and a follower reports the ping up to half a tick late.
				require.GreaterOrEqual(t, time.Since(began), c.granted)
				require.LessOrEqual(t, time.Since(began), c.granted+time.Second)
			})
		}
	}
}

// Only the first timeout of a session is in the data that a new leader has.
func TestNewLeaderGivesSessionTheTimeoutOfItsFirstHandshake(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		conn, first := attachRaw(t, e, 3, 10*time.Second, nil)
		require.NoError(t, conn.Close())
		conn, _ = attachRaw(t, e, 2, 2*time.Second, &first)
		require.NoError(t, conn.Close())
		require.NoError(t, e.Server(1).Kill(t.Context()))
		awaitLeader(t, e)
		began := time.Now()
		waitFor(t, "the session has expired", func() bool { return len(e.Sessions()) == 0 })
		require.GreaterOrEqual(t, time.Since(began), 10*time.Second)
		require.Less(t, time.Since(began), 11*time.Second)
	})
}

func TestReplacedLeaderAnswersTheTimeoutThatWasAskedFor(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := inMemory(t, zktest.Options{Servers: 3})
		conn, first := attachRaw(t, e, 3, 10*time.Second, nil)
		defer func() { require.NoError(t, conn.Close()) }()
		require.NoError(t, e.Server(1).Isolate(t.Context()))
		stale, again := attachRaw(t, e, 1, 2*time.Second, &first)
		require.NoError(t, stale.Close())
		require.Equal(t, int32(2000), again.Timeout)
		require.Equal(t, 10*time.Second, e.Sessions()[0].Timeout, "the other servers do not know of it")
	})
}
