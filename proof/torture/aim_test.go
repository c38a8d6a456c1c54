// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
	"github.com/lockkeeper/lockkeeper/proof/torture/register"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// In an hour, at least 60 partitions and 60 pauses must hit a holder. Every second fault of these kinds is aimed at one.
func TestHalfOfPausesPartitionsAndKillsAreAimedAtHolders(t *testing.T) {
	for seed := range uint64(5) {
		plan := GeneratePlan(options(t, func(o *Options) { o.Seed, o.Duration = seed, time.Hour }))
		at, all := map[string]int{}, 0
		for _, f := range plan {
			switch f.Kind {
			case "pause-contender", "partition-contender", "kill-contender":
				all++
				if f.Args[0] == holderTarget {
					at[f.Kind]++
				}
			}
		}
		require.GreaterOrEqual(t, 2*(at["pause-contender"]+at["partition-contender"]+at["kill-contender"]), all, "%v", at)
		require.Greater(t, at["pause-contender"], 90)
		require.Greater(t, at["partition-contender"], 90)
		require.Greater(t, at["kill-contender"], 15)
	}
}

func TestVolleysHitHoldersWithoutOtherFaultsAndPathsRecoverAfterwards(t *testing.T) {
	for seed := range uint64(20) {
		o := options(t, func(o *Options) { o.Seed, o.Contenders = seed, 3 })
		plan := GeneratePlan(o)
		aimable := map[string]bool{"pause-contender": true, "partition-contender": true, "kill-contender": true, "step-clock": true}
		for i, f := range plan {
			if len(f.Args) == 0 || f.Args[0] != holderTarget {
				continue
			}
			if f.Kind != "kill-contender" {
				require.Greater(t, f.For, o.Timeout*5/4, "it outlasts the session: %v", f)
			}
			inProgress := 1
			for _, other := range slices.Concat(plan[:i], plan[i+1:]) {
				if other.At < f.At+f.For && f.At < other.At+other.For {
					require.True(t, aimable[other.Kind], "%v and %v", f, other)
					if other.Args[0] != partitionedTarget { // that is one of these
						inProgress++
					}
					continue
				}
				if !aimable[other.Kind] && other.At >= f.At+f.For {
					require.GreaterOrEqual(t, other.At-f.At-f.For, o.Timeout/2, "paths recover between %v and %v", f, other)
				}
			}
			require.Less(t, inProgress, o.Contenders, "one contender has no fault: %v", f)
		}
	}
}

// A deadline by the wall clock alone is not late unless the clock steps while a holder is partitioned.
func TestVolleysStepTheClockOfPartitionedHoldersBack(t *testing.T) {
	for seed := range uint64(5) {
		o := options(t, func(o *Options) { o.Seed, o.Duration, o.Contenders = seed, 10*time.Minute, 3 })
		steps := 0
		var cut Fault
		for _, f := range GeneratePlan(o) {
			switch {
			case f.Kind == "partition-contender" && f.Args[0] == holderTarget:
				cut = f
			case f.Kind == "step-clock" && f.Args[0] == partitionedTarget:
				steps++
				require.Equal(t, (-2 * o.Timeout).String(), f.Args[1])
				require.NotEqual(t, "to-client", cut.Args[1])
				require.Greater(t, f.At, cut.At)
				require.Less(t, f.At, cut.At+o.Timeout/2, "before its deadline")
			}
		}
		require.Greater(t, steps, 5)
	}
}

func TestStepOfPartitionedHolderNeedsOne(t *testing.T) {
	s, _ := newTestRun()
	_, err := stepClock(t.Context(), s, []string{partitionedTarget, "-8s"}, time.Second)
	require.ErrorIs(t, err, errNotPartitioned)
}

func TestAimedFaultHitsContenderThatHoldsForLong(t *testing.T) {
	s, _ := newTestRun()
	var err error
	s.registers, err = register.New(s.time, func(history.Event) {}, false)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.registers.Close()) })
	for n := range 3 {
		s.contenders = append(s.contenders, &contender{run: s, number: n + 1, process: &process{name: fmt.Sprintf("c%d.1", n+1), in: discard{}}})
	}
	long := worker.LongestShortHold(s.opts.Timeout)
	writes := func(name, path string, attempt int) {
		_ = s.registers.Write(history.Event{Contender: name, Path: path, Attempt: attempt}, fencing.Token(attempt))
	}
	// hit returns the contender that is aimed at while these hold, which write all the time. It retries: if this process is not
	// scheduled between a write and the attempt to aim, no contender seems to hold.
	hit := func(all ...func()) *contender {
		for {
			for _, writes := range all {
				writes()
			}
			c, err := s.target(holderTarget, time.Second)
			if err == nil {
				return c
			}
			require.ErrorIs(t, err, errNoHolder)
			clock.Sleep(time.Millisecond)
		}
	}
	_, err = s.target(holderTarget, time.Second)
	require.ErrorIs(t, err, errNoHolder)
	first := func() { writes("c1.1", "/a", 1) }
	began := s.time.Now()
	first()
	_, err = s.target(holderTarget, time.Second)
	require.ErrorIs(t, err, errNoHolder, "it may be about to release the lock")

	require.Equal(t, 1, hit(first).number)
	require.Greater(t, s.time.Now()-began, history.Instant(long), "it may have been about to release the lock")

	second := func() {
		writes("c2.1", "/b", 2)
		writes("c1.1", "/b", 1) // a stale write shows no hold
	}
	began = s.time.Now()
	for hit(first, second).number == 1 {
		clock.Sleep(time.Millisecond)
	}
	require.Greater(t, s.time.Now()-began, history.Instant(long))
	require.Equal(t, 2, hit(first, second).number, "of several, the one that was granted its lock last")
	require.NoError(t, s.reservations.reserve(s.contenders[1].linksTarget()))
	require.Equal(t, 1, hit(first, second).number, "the other one already has a fault")

	clock.Sleep(worker.Gap(s.opts.Timeout) * 2)
	_, err = s.target(holderTarget, time.Second)
	require.ErrorIs(t, err, errNoHolder, "holders write all the time")

	c, err := s.target("3", time.Second)
	require.NoError(t, err)
	require.Equal(t, 3, c.number)
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) Close() error                { return nil }

func TestPartitionIsInTheHistory(t *testing.T) {
	s, _ := newTestRun()
	s.addLinkedContender(t)
	s.contenders[0].started, s.contenders[0].process = 7, &process{name: "c1.7"}
	s.fault(t.Context(), Fault{Kind: "partition-contender", Args: []string{"1", "both"}})
	s.fault(t.Context(), Fault{Kind: "refuse", Args: []string{"1"}})
	s.fault(t.Context(), Fault{Kind: "slow", Args: []string{"1", (s.opts.Timeout/12 - time.Millisecond).String()}})
	s.fault(t.Context(), Fault{Kind: "slow", Args: []string{"1", (s.opts.Timeout / 12).String()}})
	var kinds []history.Kind
	for _, e := range s.recorder.history() {
		if e.Contender == "c1.7" {
			kinds = append(kinds, e.Kind)
		}
	}
	require.Equal(t, []history.Kind{
		history.Partitioned, history.Healed, history.Partitioned, history.Healed, history.Slowed, history.Healed,
	}, kinds, "and not what slows no contender")
}
