// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// replaying reports whether the flags select one plan.
func replaying() bool { return *plan != "" || *seed != 0 }

// repeatFlags returns the flags that repeat a plan.
func repeatFlags(p Plan) string { return fmt.Sprintf("-run TestNoPlanBreaksPromise -sim.plan %q", p) }

func TestNoPlanBreaksPromise(t *testing.T) {
	if replaying() {
		replay(t)
		return
	}
	runPlans(t, *seeds, NewPlan)
}

// Plans with a lock service are fewer: each costs as much as three others.
func TestNoLeasePlanBreaksPromise(t *testing.T) {
	if replaying() {
		t.Skip("TestNoPlanBreaksPromise runs the plan that the flags select")
	}
	count := max(*seeds/leasePlans, 8)
	if *mutant {
		count = *seeds
	}
	runPlans(t, count, NewLeasePlan)
}

// leasePlans is how many plans there are for each with a lock service.
const leasePlans = 24

// runPlans runs and checks the plans of that many seeds.
func runPlans(t *testing.T, count int, draw func(seed uint64) Plan) {
	t.Helper()
	const shards = 16
	for shard := range shards {
		t.Run(fmt.Sprintf("shard %d", shard), func(t *testing.T) {
			t.Parallel()
			for i := shard; i < count && !enoughFailures(); i += shards {
				runs.plans.Add(1)
				s := uint64(*first + i) //nolint:gosec // it is positive
				p := draw(s)
				runAndCheck(t, fmt.Sprintf("seed %d", s), repeatFlags(p), p.Run)
			}
		})
	}
}

// replay runs one plan several times, after it was shrunk if the flags request that.
func replay(t *testing.T) {
	t.Helper()
	p := NewPlan(*seed)
	if *plan != "" {
		var err error
		p, err = ParsePlan(*plan)
		require.NoError(t, err)
	}
	if *shrink {
		p = Shrink(p, func(p Plan) bool {
			for range *repeat {
				if _, wrong := inBubble(t, p.String(), p.Run); len(wrong) > 0 {
					return true
				}
			}
			return false
		})
		t.Logf("shrunk: %v", p)
	}
	for range *repeat {
		runs.plans.Add(1)
		if !runAndCheck(t, p.String(), repeatFlags(p), p.Run) {
			return
		}
	}
}

func TestEachInjectedFaultIsCountedOnce(t *testing.T) {
	if replaying() {
		t.Skip("TestNoPlanBreaksPromise runs the plan that the flags select")
	}
	const idle = "servers=1 timeout=4s tick=1s sync=5 reap=1m0s paths=/a processes=2 length=10s"
	for steps, want := range map[string]int64{
		"": 0,
		"; 1s c0 pause; 1s c1 hold both; 2s c0 wake; 2s c1 release":                                                     2,
		"; 1s c0 refuse; 1s c0 cut; 2s c0 accept":                                                                       1,
		"; 1s c0 cut-watches 1; 1s c0 cut; 2s c1 refuse-watches 1; 2s c1 cut":                                           2,
		"; 1s c0 delay 100ms; 2s c0 delay 0s; 3s c0 crash":                                                              2,
		"; 1s zk refuse 0; 1s zk delay 0 100ms; 1s zk lag 0 100ms; 2s zk accept 0; 2s zk delay 0 0s; 2s zk lag 0 0s":    3,
		"; 1s zk stop 0; 2s zk start 0; 2s zk mute 0; 3s zk unmute 0; 4s zk mend 0; 4s zk hold 0 both; 5s zk release 0": 3,
	} {
		p, err := ParsePlan(idle + steps)
		require.NoError(t, err)
		before := sums.faults.Load()
		_, wrong := inBubble(t, steps, p.Run)
		require.Empty(t, wrong, steps)
		require.Equal(t, want, sums.faults.Load()-before, steps)
	}
}

func TestPlanTextParsesToSamePlan(t *testing.T) {
	for _, draw := range []func(uint64) Plan{NewPlan, NewLeasePlan} {
		for s := range uint64(200) {
			p := draw(s)
			again, err := ParsePlan(p.String())
			require.NoError(t, err)
			require.Equal(t, p.String(), again.String())
			require.Equal(t, p.Steps, again.Steps)
		}
	}
}

func TestCallTextParsesToSameCall(t *testing.T) {
	for s := range uint64(50) {
		for _, step := range NewLeasePlan(s).Steps {
			if !step.ofCaller() {
				continue
			}
			c, err := parseCall(step.Action)
			require.NoError(t, err)
			require.Equal(t, step.Action, c.String())
		}
	}
}

func TestSeedAlwaysDrawsTheSamePlan(t *testing.T) {
	require.Equal(t, NewPlan(7), NewPlan(7))
	require.NotEqual(t, NewPlan(7), NewPlan(8))
}

func TestInvalidPlanIsRejected(t *testing.T) {
	const fine = "servers=3 timeout=4s tick=1s sync=5 reap=1m0s paths=/a processes=2 length=20s near=c1:2 replicas=1"
	_, err := ParsePlan(fine + "; 1s c0.0 lock /a 1s 0s; 1s x0 lease /a to=r0,r0 patience=1s,2s forget=true; 2s c1 pause; 2s r0 replace; 3s zk stop 1")
	require.NoError(t, err)
	for _, broken := range []string{
		"",
		"servers=3",
		strings.Replace(fine, "servers=3", "servers=many", 1),
		strings.Replace(fine, "near=c1:2", "near=c1:3", 1),
		strings.Replace(fine, "near=c1:2", "near=c2:0", 1),
		strings.Replace(fine, "tick=1s", "tock=1s", 1),
		fine + "; 1s c0.0",
		fine + "; soon c0.0 lock /a 1s 0s",
		fine + "; 1s c2.0 lock /a 1s 0s",
		fine + "; 1s x0.0 lock /a 1s 0s",
		fine + "; 1s c0.x lock /a 1s 0s",
		fine + "; 1s c0.0 lock /b 1s 0s",
		fine + "; 1s c0.0 steal /a 1s 0s",
		fine + "; 1s c0.0 lock /a 1s",
		fine + "; 1s c0 dance",
		fine + "; 1s r1 pause",
		fine + "; 1s r0.0 lock /a 1s 0s",
		fine + "; 1s x0 lease /a",
		fine + "; 1s x0 lease /b to=r0",
		fine + "; 1s x0 lease /a to=r1",
		fine + "; 1s x0 lease /a to=r0 ttl=long",
		fine + "; 1s x0 lease /a to=r0 patience=1s,long",
		fine + "; 1s x0 lease /a to=r0 color=red",
	} {
		_, err := ParsePlan(broken)
		require.Error(t, err, broken)
	}
}

func TestShrunkPlanContainsOnlyNeededSteps(t *testing.T) {
	p := NewPlan(3)
	require.Greater(t, len(p.Steps), 12)
	first, last := p.Steps[4], p.Steps[11]
	tries := 0
	shrunk := Shrink(p, func(p Plan) bool {
		tries++
		text := p.String()
		return strings.Contains(text, "; "+first.String()) && strings.Contains(text, "; "+last.String())
	})
	require.Equal(t, []Step{first, last}, shrunk.Steps)
	require.Less(t, tries, 8*len(p.Steps))
}
