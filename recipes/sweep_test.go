// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// sweep runs two clients with two contenders each in one queue, and makes the n-th request
// fail. It reports whether the scenario reached that request.
func sweep(t *testing.T, n int, v verdict) (reached bool) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		s := newStub(t)
		count := 0 // guarded by mu
		var mu sync.Mutex
		s.on(func(r stubRequest) verdict {
			mu.Lock()
			defer mu.Unlock()
			if r.op == opPing {
				return answer
			}
			if count++; count == n {
				reached = true
				return v
			}
			return answer
		})
		holders := 0 // guarded by nothing but the claim
		var clients []*Client
		var wg sync.WaitGroup
		for range 2 {
			client := s.connect(t, s.options())
			clients = append(clients, client)
			queue := newQueue(t, client, nil)
			for range 2 {
				wg.Go(func() {
					claim, err := queue.Claim(t.Context())
					if err != nil {
						t.Errorf("request %d: %v", n, err)
						return
					}
					if holders++; holders > 1 {
						t.Errorf("request %d: two hold it", n)
					}
					time.Sleep(stubTimeout / 5) // through a heartbeat
					if err := claim.Err(); err != nil {
						t.Errorf("request %d: %v", n, err)
					}
					holders--
					if err := queue.Release(t.Context(), claim); err != nil {
						t.Errorf("request %d: %v", n, err)
					}
				})
			}
		}
		wg.Wait()
		time.Sleep(stubTimeout)
		synctest.Wait()
		require.Empty(t, s.queue(), "request %d", n)
		for _, client := range clients {
			require.Zero(t, client.OutstandingNodes(), "request %d", n)
		}
	})
	return reached
}

func TestNoFailedRequestCostsAClaimOrLeavesANode(t *testing.T) {
	for name, v := range map[string]verdict{
		"connection ends before it": cutBefore, "connection ends after it": cutAfter, "never carried out": ignore, "never answered": lose,
	} {
		t.Run(name, func(t *testing.T) {
			n := 1
			for sweep(t, n, v) {
				n++
			}
			require.Greater(t, n, 30, "the scenario has that many requests at least")
		})
	}
}
