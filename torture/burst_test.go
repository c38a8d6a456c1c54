// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/history"
)

func TestOperatorEndsTheSessionOfAnotherClient(t *testing.T) {
	e := docker.Start(t, nil)
	o := newOperator(e.Addrs())
	conn, events, err := zk.Connect(e.Addrs(), 4*time.Second, zk.WithLogger(silent{}))
	require.NoError(t, err)
	defer conn.Close()
	wait := func(state zk.State) {
		for event := range events {
			if event.State == state {
				return
			}
		}
	}
	wait(zk.StateHasSession)
	_, err = conn.Create("/ephemeral", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	session := history.ID(conn.SessionID())
	require.NoError(t, o.expire(t.Context(), session))
	wait(zk.StateExpired)
	exists, err := o.exists(t.Context(), "/ephemeral")
	require.NoError(t, err)
	require.False(t, exists)
	require.Equal(t, []history.ID{session}, o.expiredSessions())
	require.ErrorIs(t, o.expire(t.Context(), session), errNoSession, "the session has ended")
	require.Equal(t, []history.ID{session}, o.expiredSessions())
}

// The value is that of `new Random(1 ^ 0xB3415C00L).nextBytes(b)` in Java.
func TestPasswordMatchesThatOfServers(t *testing.T) {
	require.Equal(t, "054cc74a37327db215e702e20c73f005", hex.EncodeToString(password(1)))
}

func TestSessionsOfAProcessAreReturnedOnce(t *testing.T) {
	p := &process{}
	require.Empty(t, p.takeSessions())
	p.addSession(7)
	p.addSession(7)
	require.Equal(t, []history.ID{7}, p.takeSessions())
	require.Empty(t, p.takeSessions())
}
