// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

func TestExpireEndsSessionOfAnotherClient(t *testing.T) {
	onEach(t, Options{Servers: 3}, func(t trial, e *Ensemble) {
		conn, events, err := zk.Connect(e.Addrs(), 10*time.Second, zk.WithLogger(quiet{}))
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
		session := conn.SessionID()
		require.NoError(t, e.Expire(bounded(t), session))
		wait(zk.StateExpired)
		wait(zk.StateHasSession)
		exists, _, err := conn.Exists("/ephemeral")
		require.NoError(t, err)
		require.False(t, exists)
		require.ErrorIs(t, e.Expire(bounded(t), session), ErrNoSession, "it is over")
		require.ErrorIs(t, e.Expire(bounded(t), 7), ErrNoSession)
	})
}

// The value is that of `new Random(1 ^ 0xB3415C00L).nextBytes(b)` in Java.
func TestSessionPasswordMatchesThatOfServers(t *testing.T) {
	require.Equal(t, "054cc74a37327db215e702e20c73f005", hex.EncodeToString(sessionPassword(1)))
}
