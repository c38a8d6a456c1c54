// SPDX-License-Identifier: Apache-2.0

package background

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Unix(1_000_000, 0)

func rings(a *Alarm) bool {
	select {
	case <-a.Rings():
		return true
	default:
		return false
	}
}

func TestRingsBeforeTheLoopReceivesAreOne(t *testing.T) {
	a := NewAlarm()
	a.Ring()
	a.Ring()
	require.True(t, rings(a))
	require.False(t, rings(a))
}

func TestLoopThatWakesInTimeIsNotWoken(t *testing.T) {
	a := NewAlarm()
	a.Begin(start)
	require.Equal(t, time.Second, a.End(start, time.Second))
	a.By(start.Add(time.Second))
	require.False(t, rings(a))
	a.By(start.Add(time.Second / 2))
	require.True(t, rings(a))
	a.By(start.Add(time.Second * 3 / 4))
	require.False(t, rings(a), "it wakes for the earlier instant")
}

func TestLoopWakesByTheInstantThatWasAskedForDuringItsRound(t *testing.T) {
	a := NewAlarm()
	a.Begin(start)
	a.By(start.Add(time.Second))
	require.True(t, rings(a), "the round may have read the state already")
	require.Equal(t, time.Second, a.End(start, time.Minute))

	// The loop was rung before that instant, which still applies.
	a.Begin(start.Add(time.Millisecond))
	require.Equal(t, time.Second-time.Millisecond, a.End(start.Add(time.Millisecond), time.Minute))

	a.Begin(start.Add(time.Second))
	require.Equal(t, time.Minute, a.End(start.Add(time.Second), time.Minute), "the instant has passed")
}
