// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// sweep runs two clients with two contenders each in one queue, and makes the n-th request
// fail. It reports whether the scenario reached that request.
func sweep(t *testing.T, n int, r zktest.Rule) (reached bool) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		s := newEnsemble(t)
		r.Skip, r.Times = n-1, 1
		r.When = func(r zktest.Request) bool { return r.Op != "ping" }
		failed := s.Intercept(r)
		holders := 0 // guarded by nothing but the claim
		var clients []*recipes.Client
		var wg sync.WaitGroup
		for range 2 {
			client := s.connect(s.options())
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
					time.Sleep(testTimeout / 5) // through a heartbeat
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
		time.Sleep(testTimeout)
		synctest.Wait()
		reached = failed.Fired() > 0
		require.Empty(t, s.queue(), "request %d", n)
		for _, client := range clients {
			require.Zero(t, client.OutstandingNodes(), "request %d", n)
		}
	})
	return reached
}

func TestNoFailedRequestCostsAClaimOrLeavesANode(t *testing.T) {
	for name, r := range map[string]zktest.Rule{
		"connection ends before it": {Lose: zktest.ToServer},
		"connection ends after it":  {Lose: zktest.ToClient},
		"never carried out":         {Hold: zktest.ToServer},
		"never answered":            {Hold: zktest.ToClient},
	} {
		t.Run(name, func(t *testing.T) {
			n := 1
			for sweep(t, n, r) {
				n++
			}
			require.Greater(t, n, 30, "the scenario has that many requests at least")
		})
	}
}
