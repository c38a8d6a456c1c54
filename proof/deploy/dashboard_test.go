// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/promtest"
)

func TestEachQueryOfTheServiceDashboardReturnsData(t *testing.T) {
	t.Parallel()
	promtest.Program(t, "prometheus") // first, as a missing program is a reason to skip
	queries := promtest.Queries(t, "prometheus/dashboard.json")
	require.Greater(t, len(queries), 20)
	folder := t.TempDir()
	write(t, folder, "principals.json", principals())
	write(t, folder, "keys", tokenKey())
	r := startReplica(t, []string{
		"serve", "--listen=127.0.0.1:0", "--session-timeout=8s", "--principals=" + filepath.Join(folder, "principals.json"),
		"--token-keys=" + filepath.Join(folder, "keys"), "--audit=" + filepath.Join(folder, "audit.jsonl"),
	})
	contend(t, r.url)
	s := promtest.Start(t, strings.TrimPrefix(r.url, "http://"), "prometheus/alerts.yml", "../../docs/observability/alerts.yml")
	require.Empty(t, s.WithoutData(t.Context(), queries), "queries without data")

	stuck, err := s.Query(t.Context(), `lockkeeper_oldest_hold_seconds{path!~"(.*/)?elections?(/.*)?"} > 0`)
	require.NoError(t, err)
	require.Empty(t, stuck, "the replica that sweeps holds its claim for ever: that is no stuck lock")
	var alerts, others []promtest.Rule
	require.True(t, promtest.Holds(func() bool {
		alerts, err = s.Rules(t.Context())
		require.NoError(t, err)
		// An alert with a duration is pending while a scrape finds an event that is about to be written, for instance.
		others = slices.DeleteFunc(slices.Clone(alerts), func(alert promtest.Rule) bool {
			return alert.Health == "ok" && alert.State == "inactive"
		})
		for _, alert := range others {
			require.NotEqual(t, "firing", alert.State, "%s: the replica works", alert.Name)
		}
		return len(others) == 0
	}), "the replica works: %v", others)
	require.Greater(t, len(alerts), 10)
}

// contend sends requests to a replica until the end of the test: leases that are renewed, that expire, that are waited for and
// refused.
func contend(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	client := &http.Client{Transport: &http.Transport{}}
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
		client.CloseIdleConnections()
	})
	loop := func(key, action, body string) {
		running.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/locks/team/"+key+"/"+action, strings.NewReader(fmt.Sprintf(body, i)))
				if err != nil {
					panic(err) // the test's own URL
				}
				request.Header.Set("Authorization", "Bearer "+token)
				request.Header.Set("Content-Type", "application/json")
				if response, err := client.Do(request); err == nil { // what the service answers is not judged here
					_ = response.Body.Close()
				}
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
			}
		})
	}
	loop("expires", "acquire", `{"ownerId": "a", "requestId": "%d", "ttlMillis": 1000}`)
	loop("waits", "acquire", `{"ownerId": "a", "requestId": "%d", "ttlMillis": 1000, "waitMillis": 5000}`)
	loop("waits", "acquire", `{"ownerId": "b", "requestId": "%d", "ttlMillis": 1000, "waitMillis": 5000}`)
	loop("renews", "renew", `{"ownerId": "a", "lockToken": "%d"}`)
}
