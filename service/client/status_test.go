// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/service/client"
)

func TestStatusDescribesHolder(t *testing.T) {
	t.Parallel()
	url, _ := replicas(t)()
	c := newClient(t, url, &client.Options{Owner: "a"})
	free, err := c.Status(t.Context(), "team", "orders")
	require.NoError(t, err)
	require.Equal(t, &client.Status{Key: "orders"}, free)
	hold, err := c.Lock(t.Context(), "team", "orders")
	require.NoError(t, err)
	held, err := c.Status(t.Context(), "team", "orders")
	require.NoError(t, err)
	require.Equal(t, []any{true, "a", hold.Token(), "lease", 0}, []any{held.Locked, held.Owner, held.Token, held.Kind, held.Waiters})
	require.WithinDuration(t, time.Now().Add(client.DefaultTTL), time.UnixMilli(held.Expires), 20*time.Second)
	_, err = c.Status(t.Context(), "sales", "orders")
	require.ErrorIs(t, err, client.Forbidden)
	require.ErrorContains(t, err, "read sales/orders: ")
}

func TestListReadsAllPages(t *testing.T) {
	t.Parallel()
	url, _ := replicas(t)()
	c := newClient(t, url, nil)
	want := 0
	for _, key := range []string{"a/1", "a/2", "b"} {
		_, err := c.Lock(t.Context(), "team", key)
		require.NoError(t, err)
	}
	for s, err := range c.List(t.Context(), "team", "a/") {
		require.NoError(t, err)
		want++
		require.Contains(t, s.Key, "a/")
	}
	require.Equal(t, 2, want)
	for _, err := range c.List(t.Context(), "sales", "") {
		require.ErrorIs(t, err, client.Forbidden)
	}
}

func TestForceReleaseNamesItsHolder(t *testing.T) {
	t.Parallel()
	url, _ := replicas(t)()
	hold, err := newClient(t, url, nil).Lock(t.Context(), "team", "orders")
	require.NoError(t, err)
	ops := newClient(t, url, &client.Options{Bearer: bearer("ops")})
	err = ops.ForceRelease(t.Context(), "team", "orders", client.Force{Token: hold.Token() + 1, Reason: "stuck"})
	require.ErrorIs(t, err, client.HolderChanged)
	require.NoError(t, hold.Err())
	require.NoError(t, ops.ForceRelease(t.Context(), "team", "orders", client.Force{Token: hold.Token(), Reason: "stuck", Now: true}))
	now, err := ops.Status(t.Context(), "team", "orders")
	require.NoError(t, err)
	require.False(t, now.Locked)
	err = ops.ForceRelease(t.Context(), "team", "orders", client.Force{Token: hold.Token(), Reason: "stuck"})
	require.ErrorIs(t, err, client.LockNotFound)
}

func TestWatchGoesOnAtNextReplica(t *testing.T) {
	t.Parallel()
	start := replicas(t)
	first, stop := start()
	second, _ := start()
	ctx, cancel := context.WithCancel(t.Context())
	next, end := iter.Pull2(newClient(t, first+","+second, nil).Observe(ctx, "team", "orders"))
	defer end()
	becomes := func(locked bool) {
		t.Helper()
		for {
			s, err, ok := next()
			require.True(t, ok)
			require.NoError(t, err)
			if s.Locked == locked {
				return
			}
		}
	}
	becomes(false)
	other := newClient(t, second, nil)
	hold, err := other.Lock(t.Context(), "team", "orders")
	require.NoError(t, err)
	becomes(true)
	stop()
	require.NoError(t, hold.Unlock(t.Context()))
	becomes(false)
	cancel()
	_, err, ok := next()
	require.True(t, ok)
	require.ErrorIs(t, err, context.Canceled)
	_, _, ok = next()
	require.False(t, ok)
	for _, err := range newClient(t, second, nil).Observe(t.Context(), "sales", "orders") {
		require.ErrorIs(t, err, client.Forbidden)
	}
}
