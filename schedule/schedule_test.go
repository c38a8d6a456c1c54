// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)

func TestEveryHasItsActivationsAtMultiplesOfTheInterval(t *testing.T) {
	for _, c := range []struct{ after, want time.Time }{
		{noon, noon.Add(time.Hour)},
		{noon.Add(-time.Nanosecond), noon},
		{noon.Add(time.Nanosecond), noon.Add(time.Hour)},
		{noon.In(time.FixedZone("half an hour", 1800)), noon.Add(time.Hour)},
	} {
		require.Equal(t, c.want, Every(time.Hour).Next(c.after))
	}
}

func TestDueIsTheNewestActivationWithinTheDelay(t *testing.T) {
	minute := Every(time.Minute)
	for _, c := range []struct {
		name             string
		last, now        time.Duration
		delay            time.Duration
		want, wantFollow time.Duration // -1: none
	}{
		{"none yet", 0, 59 * time.Second, time.Minute, -1, time.Minute},
		{"at its instant", 0, time.Minute, time.Minute, time.Minute, 2 * time.Minute},
		{"late", 0, 90 * time.Second, time.Minute, time.Minute, 2 * time.Minute},
		{"too late", 0, 90 * time.Second, 30 * time.Second, -1, 2 * time.Minute},
		{"several", 0, 10*time.Minute + time.Second, time.Hour, 10 * time.Minute, 11 * time.Minute},
		{"last in the future", 24 * time.Hour, time.Minute, time.Hour, -1, 2 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			activation, following, err := due(t.Context(), minute, noon.Add(c.last), noon.Add(c.now), c.delay)
			require.NoError(t, err)
			require.Equal(t, noon.Add(c.wantFollow), following)
			if c.want < 0 {
				require.Zero(t, activation)
				return
			}
			require.Equal(t, noon.Add(c.want), activation)
		})
	}
}

// A fixed schedule returns one activation.
type fixed time.Time

func (f fixed) Next(time.Time) time.Time { return time.Time(f) }

func TestScheduleWithoutFurtherActivationHasNoneDue(t *testing.T) {
	activation, following, err := due(t.Context(), fixed{}, noon, noon.Add(time.Hour), time.Hour)
	require.NoError(t, err)
	require.Zero(t, activation)
	require.Zero(t, following)
}

func TestScheduleThatDoesNotAdvanceIsAnError(t *testing.T) {
	_, _, err := due(t.Context(), fixed(noon), noon, noon.Add(time.Hour), time.Hour)
	require.ErrorContains(t, err, "as the activation after")
}

// counted counts the calls of Next.
type counted struct {
	Schedule
	calls int
}

func (c *counted) Next(t time.Time) time.Time {
	c.calls++
	return c.Schedule.Next(t)
}

func TestSearchForActivationsOfManyYearsTakesFewCalls(t *testing.T) {
	const long = 1<<63 - 1 // about 292 years
	for _, last := range []time.Time{{}, noon.Add(-long), noon.Add(-24 * time.Hour)} {
		s := &counted{Schedule: Every(time.Second)}
		activation, following, err := due(t.Context(), s, last, noon, long)
		require.NoError(t, err)
		require.Equal(t, noon, activation)
		require.Equal(t, noon.Add(time.Second), following)
		require.Less(t, s.calls, 50)
	}
	s := &counted{Schedule: Every(1 << 62)} // has no activation before now
	_, following, err := due(t.Context(), s, noon.Add(-long), noon, long)
	require.NoError(t, err)
	require.True(t, following.After(noon))
	require.Less(t, s.calls, 50)
}

// dense has an activation each nanosecond.
type dense struct{}

func (dense) Next(t time.Time) time.Time { return t.Add(1) }

func TestSearchForActivationsEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := due(ctx, dense{}, noon.Add(-time.Hour), noon, time.Hour)
	require.ErrorIs(t, err, context.Canceled)
}

// daily has an activation each midnight in the location of its argument, as cron expressions without a time zone do.
type daily struct{}

func (daily) Next(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, t.Location())
}

func TestScheduleIsAskedInUTCWhateverTheZoneOfTheHost(t *testing.T) {
	_, following, err := due(t.Context(), daily{}, noon.Add(-time.Hour), noon.In(time.FixedZone("CEST", 7200)), time.Minute)
	require.NoError(t, err)
	require.Equal(t, noon.Add(12*time.Hour), following)
}

func TestIntervalOfOneSecondIsTheShortest(t *testing.T) {
	require.NoError(t, checkSchedule(Every(time.Second)))
	for _, s := range []Schedule{nil, Every(0), Every(-time.Hour), Every(time.Second - 1)} {
		require.Error(t, checkSchedule(s))
	}
}

func TestRecordIsDecodedAsItWasEncoded(t *testing.T) {
	r := Record{Time: noon, Token: 0x2a, Owner: "pod-7", Node: "/jobs/x", Since: noon.Add(time.Second)}
	data, err := stored.Encode(*r.content())
	require.NoError(t, err)
	got, err := stored.Decode(data)
	require.NoError(t, err)
	require.Equal(t, r, got.record())
	require.Zero(t, content{}.record())
}
