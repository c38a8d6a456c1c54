// SPDX-License-Identifier: Apache-2.0

package promtrace_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/trace/promtrace"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// startApp runs a program whose clients lock, wait, fail and lose sessions all the time, until the test
// ends. It returns the address at which the program serves its metrics.
func startApp(t *testing.T) string {
	t.Helper()
	metrics, registry := promtrace.New(&promtrace.Options{Path: promtrace.FirstPaths(10)}), prometheus.NewRegistry()
	require.NoError(t, registry.Register(metrics))
	servers := zktest.Start(t, &zktest.Options{Tick: 250 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	link := servers.Link()
	client := connect(t, servers, &recipes.Options{Dial: link.Dial, Trace: metrics.Trace()})
	metrics.SetClient(client)
	other := connect(t, servers, &recipes.Options{})

	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	loop := func(pause time.Duration, step func()) {
		running.Go(func() {
			for ctx.Err() == nil {
				step()
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	for _, c := range []*recipes.Client{client, other} {
		mu := mutex(t, c)
		loop(5*time.Millisecond, func() {
			_ = mu.Do(ctx, func(ctx context.Context, _ *lock.Hold) error { // what the faults do is not judged here
				select {
				case <-ctx.Done():
				case <-time.After(20 * time.Millisecond):
				}
				return nil
			})
		})
	}
	mu := mutex(t, client)
	loop(50*time.Millisecond, func() {
		if hold, err := mu.TryLock(ctx); err == nil {
			_ = hold.Unlock(ctx)
		}
	})
	deleted, err := lock.New(client, "/locks/delayed", &lock.Options{LockDelay: time.Millisecond})
	require.NoError(t, err)
	loop(200*time.Millisecond, func() {
		if hold, err := deleted.Lock(ctx); err == nil {
			_ = servers.Delete(hold.Path()) // an operator: the next holder finds that this one did not release
			_ = hold.Unlock(ctx)
		}
	})
	loop(700*time.Millisecond, link.Reset)
	loop(time.Second, func() { link.Intercept(zktest.Rule{Op: "delete", Below: "/locks", Times: 1, Fail: zktest.ErrNoAuth}) })
	loop(2*time.Second, func() {
		_ = servers.Expire(context.Background(), client.SessionID()) // an error means that there is no session at this moment
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	web := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(web.Close)
	return strings.TrimPrefix(web.URL, "http://")
}

func connect(t *testing.T, servers *zktest.Ensemble, opts *recipes.Options) *recipes.Client {
	t.Helper()
	opts.SessionTimeout, opts.Logger = time.Second, slog.New(slog.DiscardHandler)
	client, err := recipes.Connect(t.Context(), servers.Addrs(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

func mutex(t *testing.T, client *recipes.Client) *lock.Mutex {
	t.Helper()
	mu, err := lock.New(client, "/locks/ledger", nil)
	require.NoError(t, err)
	return mu
}
