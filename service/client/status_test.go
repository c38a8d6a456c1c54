// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
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

// Each character of this metadata is six in JSON.
func TestListReadsPagesOfManyMegabytes(t *testing.T) {
	t.Parallel()
	url, _ := replicas(t)()
	metadata := map[string]string{}
	for i := range 16 {
		metadata[strings.Repeat("\x01", 63)+string(rune('a'+i))] = strings.Repeat("\x01", 256)
	}
	for i := range 40 {
		body, err := json.Marshal(map[string]any{"ownerId": "a", "requestId": "r", "metadata": metadata})
		require.NoError(t, err)
		status, answer := post(t, "team", fmt.Sprintf("%s/v1/locks/team/%d/acquire", url, i), string(body))
		require.Equal(t, http.StatusOK, status, answer)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	found := 0
	for s, err := range newClient(t, url, nil).List(ctx, "team", "") {
		require.NoError(t, err)
		require.Equal(t, metadata, s.Metadata)
		found++
	}
	require.Equal(t, 40, found)
}

func TestListWhoseAnswerIsTooLongIsNotRepeated(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 16<<20+1)) // the client may have gone
	}))
	t.Cleanup(service.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, err := range newClient(t, service.URL, nil).List(ctx, "team", "") {
		require.ErrorContains(t, err, "list team: ")
		require.ErrorContains(t, err, "over 16777216 bytes")
		require.NotErrorIs(t, err, client.ErrUnavailable)
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
	var p *client.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, hold.Token(), p.FencingToken)
	require.ErrorContains(t, err, "the first contender has token "+hold.Token().String())
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
