// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestHeartbeatsOfLongPathsStaySmallAndKeepEveryClaim(t *testing.T) {
	need.NoRaceDetector(t)
	const claims = 150 // more than the server accepts in one packet, at 8 kB each
	for _, length := range []int{470, 4000, 8000} {
		t.Run(fmt.Sprintf("%d bytes", length), func(t *testing.T) {
			crowded(t, zktest.Options{}, func(s servers) {
				m := metered(s.Ensemble)
				client := s.loaded(recipes.Options{Dial: m.Dial})
				var held []*recipes.Claim
				for i := range claims {
					held = append(held, s.holds(client, fmt.Sprintf("/%03d/%s", i, strings.Repeat("x", length-len("/000/")))))
				}
				var mu sync.Mutex // guards checked
				checked := make(map[string]bool)
				s.Intercept(zktest.Rule{When: func(r zktest.Request) bool {
					if checksOnly(r) {
						mu.Lock()
						defer mu.Unlock()
						for _, op := range r.Ops {
							checked[op.Path] = true
						}
					}
					return false
				}})
				time.Sleep(5 * loadTimeout)
				s.requireHeld(held)
				mu.Lock()
				require.Len(s, checked, claims, "each is checked in its turn")
				mu.Unlock()
				_, heartbeats, size, _, _ := m.read()
				s.Logf("%d heartbeats of up to %d bytes", heartbeats, size)
				require.LessOrEqual(s, size, 64<<10)
				// Each of them is still notified immediately.
				require.Less(s, s.deletes(held[0], held[claims/2], held[claims-1]), loadTimeout/48)
			})
		})
	}
}

// A path that alone exceeds the size limit of a heartbeat is still checked.
func TestHeartbeatOfOneVeryLongPathProvesTheSession(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		client := s.loaded(recipes.Options{})
		long := s.holds(client, "/"+strings.Repeat("x", 100<<10))
		short := s.holds(client, "/a")
		time.Sleep(10 * loadTimeout)
		s.requireHeld([]*recipes.Claim{long, short})
	})
}
