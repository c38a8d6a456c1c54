// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture/clock"
)

func TestStaleWriteIsRefusedByTheFencedRegisterAndCounted(t *testing.T) {
	var j journal
	r, err := newRegisters(clock.Start(), j.add, false)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.close()) }()
	older, newer := &pen{addr: r.addr()}, &pen{addr: r.addr()}
	defer func() {
		require.NoError(t, older.close())
		require.NoError(t, newer.close())
	}()
	write := func(p *pen, path string, attempt int, token int64) bool {
		accepted, err := p.write(path, "c", attempt, fencing.Token(token))
		require.NoError(t, err)
		return accepted
	}
	for range 3 {
		require.True(t, write(older, "/l", 1, 5))
	}
	require.True(t, write(newer, "/l", 2, 6))
	require.False(t, write(older, "/l", 1, 5))
	require.False(t, write(older, "/l", 1, 5))
	require.True(t, write(older, "/other", 3, 1), "paths are apart")
	require.True(t, write(newer, "/l", 2, 6))
	require.Equal(t, Writes{All: 8, Stale: 2, Refused: 2, Accepted: 2, Holders: 1}, r.counts())

	type line struct {
		attempt          int
		fenced, accepted bool
	}
	var lines []line
	for _, e := range j.told() {
		require.Equal(t, history.Wrote, e.Kind)
		lines = append(lines, line{e.Attempt, e.Fenced, e.Accepted})
	}
	require.Equal(t, []line{ // of what comes in a row, the first
		{1, true, true},
		{1, false, true},
		{2, true, true},
		{2, false, true},
		{1, true, false},
		{1, false, true},
		{3, true, true},
		{3, false, true},
		{2, true, true},
		{2, false, true},
	}, lines)
}

func TestLateWriterIsCountedOnceAndRegistersWithoutTokensRefuseNothing(t *testing.T) {
	var j journal
	r, err := newRegisters(clock.Start(), j.add, true)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.close()) }()
	p := &pen{addr: r.addr()}
	defer func() { require.NoError(t, p.close()) }()
	for _, token := range []int{3, 1, 2, 1, 2, 3} { // and attempts of the same number
		accepted, err := p.write("/l", "c", token, fencing.Token(token))
		require.NoError(t, err)
		require.True(t, accepted)
	}
	require.Equal(t, Writes{All: 6, Stale: 4, Accepted: 4, Holders: 2}, r.counts())
	for _, e := range j.told() {
		require.False(t, e.Fenced, "there is none")
		require.True(t, e.Accepted)
	}
}

func TestClockThreadTellsWhenItCouldNotLook(t *testing.T) {
	var out bytes.Buffer
	v := &voice{name: "c", time: clock.Start(), out: &out}
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { v.watchOwnClock(time.Nanosecond, done) }) // every tick is a gap then
	require.Eventually(t, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
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
	require.GreaterOrEqual(t, events[1].At-events[0].At, history.Instant(beat)/2)
	require.True(t, slices.IsSortedFunc(events, func(a, b history.Event) int { return int(a.At - b.At) }))
}

func TestClocksTurnAWallInstantIntoOneOfTheRun(t *testing.T) {
	s := &stage{time: clock.Start()}
	s.clocks.read(s.time)
	before := s.time.Now()
	wall := time.Now().Round(0)
	after := s.time.Now()
	require.WithinRange(t, time.Unix(0, int64(s.clocks.at(wall))), time.Unix(0, int64(before)-1e6), time.Unix(0, int64(after)+1e6))
}
