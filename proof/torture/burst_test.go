// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

func TestOperatorEndsTheSessionOfAnotherClient(t *testing.T) {
	e := docker.Start(t, nil)
	o := newOperator(e.Addrs())
	o.expireSession = e.Expire
	conn, _, err := zk.Connect(e.Addrs(), 4*time.Second, zk.WithLogger(silent{}))
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Create("/ephemeral", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	session := history.ID(conn.SessionID())
	require.NoError(t, o.expire(t.Context(), session))
	exists, err := o.exists(t.Context(), "/ephemeral")
	require.NoError(t, err)
	require.False(t, exists)
	require.Equal(t, []history.ID{session}, o.expiredSessions())
	require.ErrorIs(t, o.expire(t.Context(), session), docker.ErrNoSession, "it is over")
	require.Equal(t, []history.ID{session}, o.expiredSessions())
}

func TestSessionsOfAProcessAreReturnedOnce(t *testing.T) {
	p := &process{}
	require.Empty(t, p.takeSessions())
	p.addSession(7)
	p.addSession(7)
	require.Equal(t, []history.ID{7}, p.takeSessions())
	require.Empty(t, p.takeSessions())
}
