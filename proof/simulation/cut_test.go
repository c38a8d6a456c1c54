// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

// secondCuts contains the distances of the second cut from the first, in frames. With 0 there is no second cut.
var secondCuts = []int{0, 1, 2}

func TestNoCutAtAnyFrameBreaksPromise(t *testing.T) { cutScenarios(t, Scenarios, secondCuts) }

func TestNoCutAtAnyFrameBreaksPromiseOfGroups(t *testing.T) {
	seconds := secondCuts
	if *every > 1 {
		seconds = secondCuts[:1]
	}
	cutScenarios(t, GroupScenarios, seconds)
}

func TestNoCutAtAnyFrameBreaksPromiseOfSchedules(t *testing.T) {
	cutScenarios(t, ScheduleScenarios, secondCuts[:1])
}

func TestNoCutAtAnyFrameBreaksPromiseOfAssignments(t *testing.T) { cutFewer(t, AssignScenarios) }

func TestNoCutAtAnyFrameBreaksPromiseOfHandOverAndPriority(t *testing.T) {
	cutScenarios(t, HandOverScenarios, secondCuts[:1])
}

func TestNoCutAtAnyFrameBreaksPromiseOfBarriers(t *testing.T) {
	cutScenarios(t, BarrierScenarios, secondCuts[:1])
}

// A sample has one cut only: leases have more frames, and what a client does after a second cut is proved without them.
func TestNoCutAtAnyFrameBreaksPromiseOfLeases(t *testing.T) {
	seconds := secondCuts
	if *every > 1 {
		seconds = secondCuts[:1]
	}
	cutScenarios(t, LeaseScenarios, seconds)
}

func TestNoCutAtAnyFrameBreaksPromiseOfReadersAndWriters(t *testing.T) {
	cutScenarios(t, ReadWriteScenarios, secondCuts[:1])
}

func TestNoCutAtAnyFrameBreaksPromiseOfPermits(t *testing.T) {
	cutScenarios(t, PermitScenarios, secondCuts[:1])
}

func TestNoCutAtAnyFrameBreaksPromiseOfSlots(t *testing.T) {
	cutScenarios(t, SlotScenarios, secondCuts[:1])
}

func TestNoCutAtAnyFrameBreaksPromiseOfWatches(t *testing.T) {
	cutScenarios(t, WatchScenarios, secondCuts[:1])
}

func TestNoCutAtAnyFrameBreaksPromiseOfElections(t *testing.T) { cutFewer(t, ElectionScenarios) }

func TestNoCutAtAnyFrameBreaksPromiseOfNestedLocks(t *testing.T) { cutFewer(t, NestScenarios) }

// cutFewer is cutScenarios with one cut, at half as many frames of a sample: leaders that publish send many.
func cutFewer(t *testing.T, scenarios []Scenario) {
	t.Helper()
	step := *every
	if step > 1 {
		step *= 2
	}
	cutAtEach(t, scenarios, secondCuts[:1], step)
}

func TestNoCutAtAnyFrameBreaksPromiseOfGuardians(t *testing.T) { cutFewer(t, GuardianScenarios) }

func TestNoCutAtAnyFrameBreaksPromiseOfSeveralLocks(t *testing.T) {
	cutScenarios(t, AllScenarios, secondCuts[:1])
}

func TestNoCutAtAnyFrameBreaksPromiseOfTakeovers(t *testing.T) {
	cutScenarios(t, TakeoverScenarios, secondCuts[:1])
}

// cutScenarios runs each scenario with every cut, and with second cuts at these distances.
func cutScenarios(t *testing.T, scenarios []Scenario, seconds []int) {
	t.Helper()
	cutAtEach(t, scenarios, seconds, *every)
}

// cutAtEach is cutScenarios at one frame of step.
func cutAtEach(t *testing.T, scenarios []Scenario, seconds []int, step int) {
	t.Helper()
	for _, s := range scenarios {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			if *cut != "" {
				v, c, err := ParseCut(*cut)
				require.NoError(t, err)
				for range *repeat {
					runScenario(t, s, v, c)
				}
				return
			}
			variants, step := sampleOfVariants(s, step)
			for _, v := range variants {
				runScenario(t, s, v, Cut{})
				for _, victim := range []string{"a", "b", "c"} {
					cutEachFrame(t, s, v, victim, seconds, step)
				}
			}
		})
	}
}

// sampleOfVariants returns the ensembles that the scenario runs on. In a sample of less than one frame of stride it is one of them, at
// random, with a step for as many cuts as on all: most runs of such a sample would be those without a cut.
func sampleOfVariants(s Scenario, step int) ([]Variant, int) {
	if need.RaceDetector {
		return Variants[1:2], step
	}
	variants := slices.DeleteFunc(slices.Clone(Variants), func(v Variant) bool { return !v.runs(s) })
	if len(variants)*stride > step {
		return variants, step
	}
	i := rand.N(len(variants))
	return variants[i : i+1], step / len(variants)
}

// stride is the longest distance between cut frames. A scenario has about as many frames, so a cut far behind would rarely be
// reached: a smaller sample leaves out ways of cutting instead.
const stride = 40

// cutEachFrame runs the scenario with a cut at one frame of step of one process, from a random one on, until the scenario ends
// before the cut.
func cutEachFrame(t *testing.T, s Scenario, v Variant, victim string, seconds []int, step int) {
	t.Helper()
	among := step
	step = min(step, stride)
	for _, then := range seconds {
		for _, after := range []bool{false, true} {
			if rand.N(among) >= step {
				continue
			}
			first := 1 + rand.N(step)
			n := first
			for ; runScenario(t, s, v, Cut{victim, n, after, then}); n += step {
			}
			if n == first || need.RaceDetector && then > 0 {
				return // the process does not exist or sends fewer frames, or the sample ends here
			}
		}
	}
}

// runScenario runs and checks a scenario with one cut, and reports whether the scenario reached the cut.
func runScenario(t *testing.T, s Scenario, v Variant, c Cut) (sprung bool) {
	t.Helper()
	if enoughFailures() {
		return false
	}
	runs.cuts.Add(1)
	flags := fmt.Sprintf("-run %q -sim.cut %q", t.Name(), cutText(v, c))
	runAndCheck(t, fmt.Sprintf("%s, %s, %v", s.Name, v.Name, c), flags, func() (events []history.Event, err error) {
		events, sprung, err = s.Run(v, c)
		return events, err
	})
	return sprung
}

func TestCutTextParsesToSameCut(t *testing.T) {
	for _, v := range Variants {
		for _, c := range []Cut{{}, {"a", 3, false, 0}, {"b", 1, true, 0}, {"c", 12, true, 2}} {
			gotV, gotC, err := ParseCut(cutText(v, c))
			require.NoError(t, err)
			require.Equal(t, v, gotV)
			require.Equal(t, c, gotC)
		}
	}
	for _, text := range []string{"", "unknown variant: a before 3", "one server: a before 0", "one server: a besides 3", "one server: before 3"} {
		_, _, err := ParseCut(text)
		require.Error(t, err, text)
	}
}
