// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A busy disk delays the writes of all servers.
func TestEnsembleWhoseWritesTakeALittleOverAnEighthOfTheTimeoutCostsNoClaim(t *testing.T) {
	for _, latency := range []time.Duration{loadTimeout/8 + time.Millisecond, loadTimeout/8 + 50*time.Millisecond} {
		t.Run(latency.String(), func(t *testing.T) {
			crowded(t, zktest.Options{Servers: 3}, func(s servers) {
				var mu sync.Mutex // guards attached
				attached := make(map[int64][]time.Time)
				s.Intercept(zktest.Rule{Op: "connect", Before: func(r zktest.Request) {
					mu.Lock()
					defer mu.Unlock()
					if r.Session != 0 {
						attached[r.Session] = append(attached[r.Session], time.Now())
					}
				}})
				var clients []*recipes.Client
				var claims []*recipes.Claim
				for i := range 5 {
					clients = append(clients, s.loaded(recipes.Options{}))
					claims = append(claims, s.holds(clients[i], fmt.Sprintf("/own/%d", i)))
					time.Sleep(loadTimeout / 17)
				}
				time.Sleep(loadTimeout)
				s.Intercept(zktest.Rule{Delay: latency, When: func(r zktest.Request) bool {
					switch r.Op {
					case "multi", "create", "create2", "createContainer", "setData", "delete":
						return true
					}
					return false
				}})
				began := time.Now()
				time.Sleep(10 * loadTimeout)
				s.requireHeld(claims)
				mu.Lock()
				defer mu.Unlock()
				for i, client := range clients {
					last := began.Add(-loadTimeout)
					for _, at := range attached[client.SessionID()] {
						require.GreaterOrEqual(s, at.Sub(last), loadTimeout/2, "client %d changes servers", i)
						last = at
					}
				}
			})
		})
	}
}
