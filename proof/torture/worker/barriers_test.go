// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestMembersOfARoundAreDifferentProcessesAndGoOnWithoutOne(t *testing.T) {
	servers := zktest.Start(t, nil)
	var mu sync.Mutex // guards what follows
	entered := map[string][]string{}
	left := map[string]int{}
	has := func(met func() bool) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return met()
		}
	}
	var meeting sync.WaitGroup
	start := func(name string) (stop context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		spec := &Spec{
			Name: name, Servers: servers.Addrs(), Timeout: history.Instant(4 * time.Second), Barrier: "/barrier", Double: "/double", DoubleSize: 2,
		}
		meeting.Go(func() {
			client, err := connect(ctx, spec)
			if err != nil {
				t.Error(err)
				return
			}
			defer client.Close()
			err = meet(ctx, client, spec, func(e history.Event) {
				mu.Lock()
				defer mu.Unlock()
				switch round := e.Node[:max(0, len(e.Node)-13)]; e.Kind {
				case history.Entered:
					entered[round] = append(entered[round], name)
				case history.Left:
					left[name]++
				default:
				}
			})
			if ctx.Err() == nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		return cancel
	}
	stopA, stopB, stopC := start("a"), start("b"), start("c")
	require.Eventually(t, has(func() bool { return left["a"] > 0 && left["b"] > 0 && left["c"] > 0 }), time.Minute, 10*time.Millisecond)
	stopA()
	mu.Lock()
	until := left["b"] + 2
	mu.Unlock()
	require.Eventually(t, has(func() bool { return left["b"] >= until }), time.Minute, 10*time.Millisecond)
	stopB()
	stopC()
	meeting.Wait()
	for round, members := range entered {
		require.LessOrEqual(t, len(members), 2, round)
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(members))), len(members), round)
	}
}
