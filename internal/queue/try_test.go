// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestManyThatTryForALockHoldItMostOfTheTimeAndLosersCreateNothing(t *testing.T) {
	need.NoRaceDetector(t)
	for name, clients := range map[string]int{"one client": 1, "eight clients": 8} {
		t.Run(name, func(t *testing.T) {
			const (
				workers = 128
				work    = 40 * time.Millisecond
				pause   = 40 * time.Millisecond
				runs    = time.Second
			)
			var created atomic.Int64
			crowded(t, zktest.Options{OnCommit: func(c zktest.Commit) {
				for _, op := range c.Ops {
					if c.Err == nil && op.Op == "create" && strings.HasPrefix(op.Path, "/b/") {
						created.Add(1)
					}
				}
			}}, func(s servers) {
				// The parent is missing at first.
				var held atomic.Int64 // in nanoseconds
				var grants atomic.Int64
				var running sync.WaitGroup
				began := time.Now()
				for i := range clients {
					link := s.Link()
					link.Delay(time.Millisecond)
					queue := s.queue(s.loaded(recipes.Options{Dial: link.Dial}), "/b")
					for range workers / clients {
						running.Go(func() {
							time.Sleep(time.Duration(i) * pause / workers)
							for time.Since(began) < runs {
								claim, err := queue.Try(s.Context())
								var busy *recipes.BusyError
								switch {
								case errors.As(err, &busy):
								case err != nil:
									s.Errorf("try: %v", err)
									return
								default:
									grants.Add(1)
									time.Sleep(work)
									held.Add(int64(work))
									if err := queue.Release(s.Context(), claim); err != nil {
										s.Errorf("release: %v", err)
									}
								}
								time.Sleep(pause)
							}
						})
					}
				}
				running.Wait()
				share := float64(held.Load()) / float64(time.Since(began))
				s.Logf("held for %.0f %% of the time, %d grants, %d nodes", 100*share, grants.Load(), created.Load())
				require.Greater(s, share, 0.5)
				require.Equal(s, grants.Load(), created.Load())
				s.queued("/b", 0, 0)
			})
		})
	}
}
