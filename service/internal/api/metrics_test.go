// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestOldestWaitIsThatOfALock(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{})
		exported := func() string { return string(f.send("", http.MethodGet, "/metrics", "").body) }
		require.Contains(t, exported(), "lockkeeper_service_oldest_wait_seconds 0\n")
		since := func(d time.Duration, metadata map[string]string) lease.Contender {
			return lease.Contender{Contender: recipes.Contender{Since: time.Now().Add(-d)}, Lease: &lease.Lease{Metadata: metadata}}
		}
		f.locks.waiters = []lease.Contender{
			since(time.Minute, nil), since(2*time.Minute, map[string]string{"job": "1"}), since(time.Hour, map[string]string{"value": ""}),
		}
		require.Contains(t, exported(), "lockkeeper_service_oldest_wait_seconds 120\n", "candidates wait while the leader lives")
	})
}

// Scrapes need no credentials, and count what requests wait for meanwhile.
func TestScrapesAtTheSameTimeReadTheMetricsTwice(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		const scrapes = 100
		var reading, most, reads atomic.Int32
		f := newFixture(t, &scripted{scraped: func() {
			most.Store(max(most.Load(), reading.Add(1)))
			reads.Add(1)
			time.Sleep(time.Second)
			reading.Add(-1)
		}})
		statuses := make(chan int, scrapes)
		for range scrapes {
			go func() { statuses <- f.send("", http.MethodGet, "/metrics", "").status }()
		}
		for range scrapes {
			require.Equal(t, http.StatusOK, <-statuses)
		}
		require.EqualValues(t, 1, most.Load())
		require.EqualValues(t, 2, reads.Load(), "all that came during the first read share the second one")
	})
}

func TestScrapeThatFollowsAnotherOneIsNewer(t *testing.T) {
	f := newFixture(t, &scripted{})
	for i := range 3 {
		require.Equal(t, http.StatusOK, f.send("client", http.MethodPost, acquirePath, acquireBody).status)
		require.Contains(t, string(f.send("", http.MethodGet, "/metrics", "").body), fmt.Sprintf(`operation="acquire",status="200"} %d`, i+1))
	}
}

func TestGrantIsMeasuredWithoutItsWait(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		f := newFixture(t, &scripted{waiting: make(chan struct{}), grant: lease.Grant{Waited: 3*time.Hour - 20*time.Millisecond}})
		time.AfterFunc(3*time.Hour, func() { close(f.locks.waiting) })
		waits := `{"ownerId": "w1", "requestId": "r1", "wait": true}`
		require.Equal(t, http.StatusOK, f.send("both", http.MethodPost, "/v1/locks/orders/acquire", waits).status)
		exported := string(f.send("", http.MethodGet, "/metrics", "").body)
		require.Contains(t, exported, "lockkeeper_service_grant_duration_seconds_sum 0.02\n")
		require.Contains(t, exported, `lockkeeper_service_request_duration_seconds_sum{operation="acquire"} 10800`)
		f.locks.err = lease.ErrSuperseded
		f.send("both", http.MethodPost, "/v1/locks/orders/acquire", waits)
		require.Contains(t, string(f.send("", http.MethodGet, "/metrics", "").body), "lockkeeper_service_grant_duration_seconds_count 1\n")
	})
}
