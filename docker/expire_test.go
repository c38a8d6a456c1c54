// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

func expireEndsSessionOfAnotherClient(t trial, e *Ensemble) {
	conn, _, err := zk.Connect(e.Addrs(), 10*time.Second, zk.WithLogger(quiet{}))
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Create("/ephemeral", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	session := conn.SessionID()
	ctx := bounded(t)
	require.NoError(t, e.Expire(ctx, session))
	// The client's channel of events drops those that no one has taken: the state says the same.
	require.NoError(t, poll(ctx, func(context.Context) error {
		if id := conn.SessionID(); id == session || id == 0 || conn.State() != zk.StateHasSession {
			return fmt.Errorf("session %#x, %v", id, conn.State())
		}
		return nil
	}))
	exists, _, err := conn.Exists("/ephemeral")
	require.NoError(t, err)
	require.False(t, exists)
	require.ErrorIs(t, e.Expire(ctx, session), ErrNoSession, "it is over")
	require.ErrorIs(t, e.Expire(ctx, 7), ErrNoSession)
}

// The value is what `new Random(1 ^ 0xB3415C00L).nextBytes(b)` gives in Java.
func TestSessionPasswordMatchesThatOfServers(t *testing.T) {
	require.Equal(t, "054cc74a37327db215e702e20c73f005", hex.EncodeToString(sessionPassword(1)))
}
