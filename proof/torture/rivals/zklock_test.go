// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rivals

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// unreachable is a lock whose delete always fails.
type unreachable struct{ tried int }

func (u *unreachable) Unlock() error {
	u.tried++
	return zk.ErrConnectionClosed
}

func holding(timeout time.Duration) (*zkHold, *unreachable) {
	u := &unreachable{}
	c := &zkClient{timeout: timeout, held: newClaim()}
	return &zkHold{claim: c.held, client: c, lock: u, session: 7}, u
}

func TestNodeOfALostSessionIsNotDeleted(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		h, u := holding(4 * time.Second)
		time.AfterFunc(time.Second, func() { h.client.lose(true) })
		require.ErrorIs(t, h.Release(t.Context()), zk.ErrSessionExpired)
		require.InDelta(t, 100, u.tried, 1, "every ten milliseconds until the session is lost after a second")
		require.Equal(t, history.GivenUp, h.Cause())

		h, u = holding(4 * time.Second)
		h.client.lose(true)
		require.Equal(t, history.Expired, h.Cause())
		require.ErrorIs(t, h.Release(t.Context()), zk.ErrSessionExpired)
		require.Zero(t, u.tried)
	})
}

func TestNodeOfALostConnectionIsDeleted(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		h, u := holding(4 * time.Second)
		h.client.lose(false)
		<-h.Done()
		time.AfterFunc(time.Second, func() { h.client.lose(true) })
		require.ErrorIs(t, h.Release(t.Context()), zk.ErrSessionExpired)
		require.Positive(t, u.tried)
	})
}

func TestHoldOfAClosedClientIsReleasedImmediately(t *testing.T) {
	h, u := holding(time.Hour)
	h.client.closed = true
	require.NoError(t, h.Release(t.Context()))
	<-h.Done()
	require.Zero(t, u.tried)
	require.Equal(t, history.ID(7), h.Grant().Session)
}

func TestCloseDoesNotWaitForUnansweredHandshake(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts connections, and no program answers
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err = zkLock{}.Connect(ctx, &worker.Spec{Servers: []string{l.Addr().String()}, Timeout: 4e9})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(began), 10*time.Second, "less than the 27 s that the handshake may take")
}
