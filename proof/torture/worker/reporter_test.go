// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
)

func TestClockThreadReportsGaps(t *testing.T) {
	var out bytes.Buffer
	r := &reporter{name: "c", time: clock.Start(), out: &out}
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { r.watchClock(time.Nanosecond, done) }) // so that every tick is a gap
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return out.Len() > 0
	}, 10*time.Second, time.Millisecond)
	close(done)
	running.Wait()
	var events []history.Event
	for line := range bytes.Lines(out.Bytes()) {
		var e history.Event
		require.NoError(t, json.Unmarshal(line, &e))
		events = append(events, e)
	}
	require.Equal(t, history.Paused, events[0].Kind)
	require.Equal(t, history.Woke, events[1].Kind)
	require.Equal(t, "c", events[0].Contender)
	require.GreaterOrEqual(t, events[1].At-events[0].At, history.Instant(clock.Period)/2)
	require.True(t, slices.IsSortedFunc(events, func(a, b history.Event) int { return int(a.At - b.At) }))
}
