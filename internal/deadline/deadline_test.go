// SPDX-License-Identifier: Apache-2.0

package deadline

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// seconds is an instant of these tests, in which T is 12 s as a rule.
func seconds(s float64) time.Time {
	return time.Unix(1_000_000, 0).Add(time.Duration(s * float64(time.Second)))
}

func instants(at ...float64) []time.Time {
	times := make([]time.Time, len(at))
	for i, s := range at {
		times[i] = seconds(s)
	}
	return times
}

func TestDeadlineIsThreeQuartersOfTheTimeoutLessTheGapAndTheRoundTrip(t *testing.T) {
	for _, c := range []struct {
		timeout, gap, roundTrip time.Duration
		want                    float64
	}{
		{12 * time.Second, 0, 0, 9},
		{12 * time.Second, 2 * time.Second, 0, 7},
		{12 * time.Second, 4 * time.Second, 500 * time.Millisecond, 4.5},
		{12 * time.Second, 2 * time.Second, 250 * time.Millisecond, 6.75},
		{12 * time.Second, 8 * time.Second, 2 * time.Second, -1},
		{time.Second, 100 * time.Millisecond, 50 * time.Millisecond, 0.6},
		{40 * time.Second, 5 * time.Second, time.Second, 24},
	} {
		require.Equal(t, seconds(100+c.want), deadlineAfter(c.timeout, seconds(100), c.gap, c.roundTrip), "%+v", c)
	}
}

func TestLongestGapIsThatBetweenAnsweredPacketsInTheWindow(t *testing.T) {
	for name, c := range map[string]struct {
		answered []time.Time
		want     float64
	}{
		"no packet yet":                         {nil, 0},
		"one within the window":                 {instants(98), 2},
		"one at the same instant":               {instants(100), 0},
		"one before the window counts whole":    {instants(90), 10},
		"regular":                               {instants(94, 96, 98), 2},
		"the gap that reaches in counts whole":  {instants(92, 98, 99), 6},
		"what lies before the window does not":  {instants(80, 97, 98, 99), 1},
		"at the window's edge":                  {instants(90, 97), 3},
		"just inside the window":                {instants(90, 97.5), 7.5},
		"the last gap ends at the proof":        {instants(97, 97.5), 2.5},
		"later packets say nothing":             {instants(96, 99, 101, 150), 3},
		"only later packets":                    {instants(101, 102), 0},
		"the same instant and an earlier one":   {instants(95, 100), 5},
		"burst after silence":                   {instants(91, 99.8, 99.9, 100), 8.8},
		"silence after a burst":                 {instants(97.1, 97.2, 97.3), 2.7},
		"two gaps of which the older is longer": {instants(95.5, 98.5), 3},
	} {
		got := longestGap(c.answered, seconds(100), 3*time.Second)
		require.InDelta(t, c.want, got.Seconds(), 1e-6, name)
	}
}

// history feeds packets and proofs to a Lease with T = 12 s, in the order of their
// answers, all of which took roundTrip.
func history(roundTrip time.Duration, packets []time.Time, proofs []time.Time) *Lease {
	tr := New(12 * time.Second)
	for _, sent := range packets {
		tr.Packet(sent)
		if slices.Contains(proofs, sent) {
			tr.Proof(sent, sent.Add(roundTrip))
		}
	}
	return tr
}

func TestDeadlineInSteadyStateIsSevenTwelfthsOfTheTimeoutAfterAHeartbeat(t *testing.T) {
	beats := instants(0, 2, 4, 6, 8, 10, 12) // each T/6
	tr := history(300*time.Millisecond, beats, beats)
	require.Equal(t, seconds(12+7-0.3), tr.Deadline())
}

func TestDeadlineInSteadyStateIsAboutHalfTheTimeoutWhateverTheClientPings(t *testing.T) {
	beats, packets := []time.Time(nil), []time.Time(nil)
	for at := 0.0; at <= 60; at += 2 {
		beats = append(beats, seconds(at))
	}
	packets = append(packets, beats...)
	for at := 1.3; at <= 60; at += 4 { // pings each T/3
		packets = append(packets, seconds(at))
	}
	slices.SortFunc(packets, time.Time.Compare)
	tr := history(time.Second, packets, beats) // r = T/12
	require.Equal(t, seconds(60+6), tr.Deadline())
}

func TestFirstDeadlineAfterIdlePingsIsFiveTwelfthsOfTheTimeout(t *testing.T) {
	pings := instants(0, 4, 8, 12) // each T/3
	join := seconds(16)            // as late after the last ping as can be
	tr := history(500*time.Millisecond, append(pings, join), []time.Time{join})
	require.Equal(t, seconds(16+5-0.5), tr.Deadline())
}

func TestGapCountsForAQuarterOfTheTimeout(t *testing.T) {
	packets := instants(0, 4, 5, 6, 6.9)
	tr := history(0, packets, instants(6.9))
	require.Equal(t, seconds(6.9+9-4), tr.Deadline())
	packets = instants(0, 4, 5, 6, 7)
	tr = history(0, packets, instants(7))
	require.Equal(t, seconds(7+9-1), tr.Deadline())
}

func TestLaterOfTwoDeadlinesCounts(t *testing.T) {
	beats := instants(0, 1, 2, 3, 4, 5, 6)
	tr := history(0, beats, beats)
	require.Equal(t, seconds(6+8), tr.Deadline())
	tr.Proof(seconds(5.5), seconds(6)) // sent earlier, answered later
	require.Equal(t, seconds(6+8), tr.Deadline())
	tr.Packet(seconds(7))
	tr.Proof(seconds(7), seconds(7.5))
	require.Equal(t, seconds(7+8-0.5), tr.Deadline())
}

func TestSlowProofNeverShortensBelief(t *testing.T) {
	beats := instants(0, 2, 4, 6)
	tr := history(0, beats, beats)
	before := tr.Deadline()
	tr.Packet(seconds(8))
	tr.Proof(seconds(8), seconds(14)) // s + 9 − 2 − 6 would be 9
	require.Equal(t, before, tr.Deadline())
}

func TestLargerRoundTripOfTheLastTwoCounts(t *testing.T) {
	beats := instants(0, 2, 4, 6)
	tr := history(0, beats, beats)
	for _, beat := range []struct{ sent, answered, want float64 }{
		{8, 9, 8 + 7 - 1},
		{10, 10, 10 + 7 - 1},
		{12, 12, 12 + 7},
		{14, 14.5, 14 + 7 - 0.5},
		{16, 16.25, 16 + 7 - 0.5},
		{18, 18.25, 18 + 7 - 0.25},
	} {
		tr.Packet(seconds(beat.sent))
		tr.Proof(seconds(beat.sent), seconds(beat.answered))
		require.Equal(t, seconds(beat.want), tr.Deadline(), "%+v", beat)
	}
}

func TestPacketsWithoutAProofBuyNothing(t *testing.T) {
	tr := New(12 * time.Second)
	for at := range 100 {
		tr.Packet(seconds(float64(at)))
	}
	require.Zero(t, tr.Deadline())
	require.LessOrEqual(t, tr.Left(seconds(0)), time.Duration(0), "before the first proof nothing is believed")
	require.LessOrEqual(t, tr.Left(time.Time{}), time.Duration(0))
}

func TestPacketsOfAnOldConnectionDoNotDisturbTheOrder(t *testing.T) {
	tr := New(12 * time.Second)
	for _, at := range instants(0, 4, 2, 4, 3.9, 8) {
		tr.Packet(at)
	}
	require.Equal(t, instants(0, 4, 8), tr.answered)
}

func TestDeadlineNeverLiesMoreThanThreeQuartersOfTheTimeoutAfterItsProof(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		timeout := time.Duration(1+r.IntN(40)) * time.Second
		tr := New(timeout)
		now := seconds(0)
		latest := now
		for range 60 {
			now = now.Add(time.Duration(r.Int64N(int64(timeout / 3))))
			switch r.IntN(4) {
			case 0: // a proof that may have been on its way for long
				sent := now.Add(-time.Duration(r.Int64N(int64(timeout / 2))))
				if sent.After(latest) {
					latest = sent
				}
				tr.Packet(sent)
				tr.Proof(sent, now)
			case 1:
				timeout = max(time.Second, timeout+time.Duration(r.IntN(5)-2)*time.Second)
				if timeout > tr.Timeout() {
					timeout = tr.Timeout() // what grows is granted for proofs to come
				}
				tr.Renegotiate(timeout)
			default:
				tr.Packet(now)
			}
			require.False(t, tr.Deadline().After(latest.Add(timeout*3/4)), "seed %d", seed)
		}
	}
}

func TestThinningOverstatesTheGapByAtMostASixtyFourth(t *testing.T) {
	const timeout = 12 * time.Second
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 4))
		tr := New(timeout)
		var all []time.Time
		now := seconds(0)
		for range 200 {
			step := timeout / 640 // a busy session
			if r.IntN(40) == 0 {
				step = timeout / 3 // that pauses
			}
			now = now.Add(1 + time.Duration(r.Int64N(int64(step))))
			all = append(all, now)
			tr.Packet(now)
			sent := now.Add(time.Duration(r.Int64N(int64(timeout/8))) - timeout/16) // between packets, or after the last
			exact, kept := longestGap(all, sent, timeout/4), longestGap(tr.answered, sent, timeout/4)
			require.GreaterOrEqual(t, kept, exact, "seed %d", seed)
			require.LessOrEqual(t, kept, exact+timeout/64, "seed %d", seed)
			require.LessOrEqual(t, len(tr.answered), 2*64+3, "seed %d: memory is bounded", seed)
		}
	}
}

func TestShorterTimeoutShortensWhatWasBelieved(t *testing.T) {
	beats := instants(0, 2, 4)
	tr := history(0, beats, beats)
	require.Equal(t, seconds(4+7), tr.Deadline())
	tr.Renegotiate(8 * time.Second)
	require.Equal(t, 8*time.Second, tr.Timeout())
	require.Equal(t, seconds(4+4), tr.Deadline(), "s + 3/4 of 8 s − 2 s")
	tr.Renegotiate(8 * time.Second)
	require.Equal(t, seconds(4+4), tr.Deadline(), "once")
}

func TestLongerTimeoutBuysNothingForProofsThatWere(t *testing.T) {
	beats := instants(0, 2, 4)
	tr := history(0, beats, beats)
	tr.Renegotiate(24 * time.Second)
	require.Equal(t, seconds(4+7), tr.Deadline())
	tr.Packet(seconds(6))
	tr.Proof(seconds(6), seconds(6))
	require.Equal(t, seconds(6+16), tr.Deadline(), "s + 3/4 of 24 s − 2 s")
}

func TestFirstNegotiationLeavesNoDeadlineBehind(t *testing.T) {
	tr := New(12 * time.Second)
	tr.Renegotiate(4 * time.Second)
	require.Zero(t, tr.Deadline())
}

// aheadByWall returns t as read after the machine was suspended: the wall clock has advanced,
// the monotonic clock has not. There is no other way to build such a value.
func aheadByWall(t *testing.T, at time.Time, seconds int64) time.Time {
	t.Helper()
	// With a monotonic reading, the first word holds 33 bits of seconds above 30
	// of nanoseconds.
	*(*uint64)(unsafe.Pointer(&at)) += uint64(seconds) << 30
	return at
}

func TestSuspendedMachineIsNoticed(t *testing.T) {
	sent := time.Now()
	tr := New(12 * time.Second)
	tr.Packet(sent)
	tr.Proof(sent, sent)
	require.Equal(t, 9*time.Second, tr.Left(sent))
	require.Equal(t, 8*time.Second, tr.Left(sent.Add(time.Second)))

	woken := aheadByWall(t, sent, 60)
	require.Zero(t, woken.Sub(sent), "time.Time is laid out as assumed")
	require.Equal(t, time.Minute, woken.Round(0).Sub(sent.Round(0)), "time.Time is laid out as assumed")
	require.Equal(t, -51*time.Second, tr.Left(woken))
}

func TestGapOverASuspensionIsThatOfTheWallClock(t *testing.T) {
	slept := time.Now()
	last := slept.Add(-time.Second / 2)
	woken := aheadByWall(t, slept, 8)
	require.Equal(t, 17*time.Second/2, longestGap([]time.Time{last}, woken, 3*time.Second))
	later := woken.Add(time.Second)
	require.Equal(t, 17*time.Second/2, longestGap([]time.Time{last, woken}, later, 3*time.Second))

	tr := New(12 * time.Second)
	tr.Packet(last)
	tr.Packet(woken)
	tr.Proof(woken, woken)
	require.Equal(t, time.Second/2, tr.Left(woken), "9 s, less the gap")
}

func TestGapOverAStepBackOfTheWallClockIsThatOfTheMonotonicOne(t *testing.T) {
	before := time.Now()
	after := aheadByWall(t, before.Add(2*time.Second), -3600)
	require.Equal(t, 2*time.Second, longestGap([]time.Time{before}, after, 3*time.Second))
}

func TestWallClockThatIsSetBackBuysNothing(t *testing.T) {
	sent := time.Now()
	tr := New(12 * time.Second)
	tr.Packet(sent)
	tr.Proof(sent, sent)
	require.Equal(t, 4*time.Second, tr.Left(aheadByWall(t, sent.Add(5*time.Second), -3600)))
}
