// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A busy disk delays the writes of all servers.
func TestEnsembleWhoseWritesTakeOverAnEighthOfTheTimeoutCostsNoClaim(t *testing.T) {
	for _, latency := range []time.Duration{loadTimeout/8 + time.Millisecond, loadTimeout * 18 / 100} {
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
				slowWrites(s, latency)
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

// slowWrites delays the writes of all servers.
func slowWrites(s servers, latency time.Duration) {
	s.Intercept(zktest.Rule{Delay: latency, When: func(r zktest.Request) bool {
		switch r.Op {
		case "multi", "create", "create2", "createContainer", "setData", "delete":
			return true
		}
		return false
	}})
}

// The bound is in the package's documentation: 5T/24, less what two heartbeats in flight need.
func TestWritesOfUpToAFifthOfTheTimeoutCostNoClaimAndNoConnection(t *testing.T) {
	need.NoRaceDetector(t)
	for _, percent := range []int{10, 16, 20} {
		for phase := range 12 {
			crowded(t, zktest.Options{Servers: 3}, func(s servers) {
				least := loadTimeout // that was left when a proof arrived
				client := s.loaded(recipes.Options{Trace: &recipes.Trace{Proved: func(e recipes.SessionEvent) { least = min(least, e.Left) }}})
				claim := s.holds(client, "/own")
				time.Sleep(loadTimeout + loadTimeout/6*time.Duration(phase)/12)
				moved := s.Intercept(zktest.Rule{Op: "connect"})
				slowWrites(s, loadTimeout*time.Duration(percent)/100)
				time.Sleep(20 * loadTimeout)
				s.requireHeld([]*recipes.Claim{claim})
				require.Zero(s, moved.Fired(), "it leaves no server that is only slow")
				client.Close()
				require.Greater(s, least, time.Duration(0))
			})
		}
	}
}

func TestLockIsGrantedAndKeptWhereWritesTakeNearlyAFifthOfTheTimeout(t *testing.T) {
	crowded(t, zktest.Options{Servers: 3}, func(s servers) {
		slowWrites(s, loadTimeout*18/100)
		ctx, cancel := context.WithTimeout(s.Context(), 10*loadTimeout)
		defer cancel()
		claim, err := s.queue(s.loaded(recipes.Options{}), "/own").Claim(ctx)
		require.NoError(s, err)
		time.Sleep(20 * loadTimeout)
		s.requireHeld([]*recipes.Claim{claim})
	})
}

// The idle client pings every T/3, so the proof of a young hold is preceded by a silence.
func TestYoungHoldRidesOutAFaultOfAlmostAQuarterOfTheTimeout(t *testing.T) {
	need.NoRaceDetector(t)
	for _, far := range []time.Duration{0, loadTimeout / 100} {
		for phase := range 96 {
			crowded(t, zktest.Options{Servers: 3}, func(s servers) {
				link := s.Link()
				link.Delay(far / 2)
				client := s.loaded(recipes.Options{Dial: link.Dial})
				time.Sleep(loadTimeout + loadTimeout/3*time.Duration(phase%8)/8) // since the last ping
				claim := s.holds(client, "/own")
				time.Sleep(loadTimeout / 3 * time.Duration(phase/8) / 12)
				link.Hold(zktest.Both)
				time.Sleep(loadTimeout * 24 / 100)
				link.Release()
				time.Sleep(2 * loadTimeout)
				s.requireHeld([]*recipes.Claim{claim})
			})
		}
	}
}

// The proof of a grant after a long wait is preceded by a silence, too.
func TestHoldAfterALongWaitRidesOutAFaultOfAlmostAQuarterOfTheTimeout(t *testing.T) {
	for phase := range 48 {
		crowded(t, zktest.Options{Servers: 3}, func(s servers) {
			link := s.Link()
			former := s.loaded(recipes.Options{})
			holder := s.holds(former, "/own")
			client := s.loaded(recipes.Options{Dial: link.Dial})
			granted := make(chan *recipes.Claim)
			go func() { granted <- s.holds(client, "/own") }()
			time.Sleep(2*loadTimeout + loadTimeout/3*time.Duration(phase%8)/8) // since the last ping
			require.NoError(s, s.queue(former, "/own").Release(s.Context(), holder))
			claim := <-granted
			time.Sleep(loadTimeout / 3 * time.Duration(phase/8) / 6)
			link.Hold(zktest.Both)
			time.Sleep(loadTimeout * 24 / 100)
			link.Release()
			time.Sleep(2 * loadTimeout)
			s.requireHeld([]*recipes.Claim{claim})
		})
	}
}
