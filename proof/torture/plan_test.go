// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The paths of a run without a lock service.
var containers, countedPath = new(Options).containers(), new(Options).countedPath()

func options(t *testing.T, change func(*Options)) *Options {
	t.Helper()
	o := &Options{Duration: 10 * time.Minute, Seed: 1, Servers: 3, Steps: true}
	if change != nil {
		change(o)
	}
	require.NoError(t, o.Check())
	return o
}

func TestPlanHasAllKindsAndDependsOnlyOnItsSeed(t *testing.T) {
	o := options(t, nil)
	plan := GeneratePlan(o)
	require.Equal(t, plan, GeneratePlan(options(t, nil)))
	require.NotEqual(t, plan, GeneratePlan(options(t, func(o *Options) { o.Seed = 2 })))
	seen := map[string]int{}
	for _, f := range plan {
		seen[f.Kind]++
	}
	for _, kind := range Kinds() {
		if kinds[kind].inject == nil || kinds[kind].target == onReplica {
			require.Zero(t, seen[kind], kind)
			continue
		}
		require.Greater(t, seen[kind], 3, kind)
	}
	seen = map[string]int{}
	for _, f := range GeneratePlan(options(t, func(o *Options) { o.Replicas = 2 })) {
		seen[f.Kind]++
		if f.Kind == "expire-sessions" {
			require.Contains(t, []string{"1", "3"}, f.Args[0], "the others use the lock service, and have no session")
		}
	}
	for kind := range kinds {
		require.True(t, kinds[kind].inject == nil || seen[kind] > 0, kind)
	}
	require.Greater(t, len(plan), 100, "every few seconds")
}

func TestPlanHealsAllFaultsBeforeTheEndAndOverlapsAtMostThree(t *testing.T) {
	for seed := range uint64(40) {
		o := options(t, func(o *Options) { o.Seed, o.Duration, o.Replicas = seed/2, 2*time.Minute, int(seed%2)*3 })
		plan := GeneratePlan(o)
		concurrent := false
		for i, f := range plan {
			require.LessOrEqual(t, f.At+f.For, o.Duration-o.quiet(), f)
			inProgress := 1
			for _, other := range slices.Concat(plan[:i], plan[i+1:]) {
				if other.At <= f.At && f.At < other.At+other.For {
					inProgress++
				}
			}
			require.LessOrEqual(t, inProgress, maxConcurrent, "%v", f)
			concurrent = concurrent || inProgress > 1
		}
		require.True(t, concurrent)
	}
}

func TestPlanSurvivesWriteAndRead(t *testing.T) {
	plan := GeneratePlan(options(t, nil))
	var text bytes.Buffer
	require.NoError(t, WritePlan(&text, plan))
	again, err := ReadPlan(strings.NewReader("# a comment\n\n" + text.String()))
	require.NoError(t, err)
	require.Len(t, again, len(plan))
	for i := range plan {
		require.Equal(t, plan[i].String(), again[i].String())
	}
	for _, wrong := range []string{"kill-server 1", "at 1s for x kill-server", "at x for 1s kill-server", "at 1s for 1s flood"} {
		_, err := ReadPlan(strings.NewReader("at 1s for 1s kill-server 1\n" + wrong))
		require.ErrorContains(t, err, "line 2: ", wrong)
	}
}

func TestEmptyPlanIsNotReplacedByAGeneratedOne(t *testing.T) {
	plan, err := ReadPlan(strings.NewReader("# nothing\n"))
	require.NoError(t, err)
	require.NotNil(t, plan)
	require.Empty(t, plan)
}

func TestImpossiblePlanIsRejectedWithAllowedValues(t *testing.T) {
	o := options(t, func(o *Options) {
		o.Duration, o.Faults = time.Minute, []string{"counter", "kill-server", "lose-reply", "reap", "slow", "delete-node", "partition-contender", "step-clock"}
	})
	for _, wrong := range []struct{ line, want string }{
		{"at 1s for 1s counter", `fault "counter": it is present from the start`},
		{"at 1s for 1s kill-server", "0 arguments, want 1: server"},
		{"at 1s for 1s kill-server 1 2", "2 arguments, want 1: server"},
		{"at 1s for 1s kill-server 4", `server "4": allowed are leader, follower, 1, 2, 3`},
		{"at 1s for 1s fill-disk 1", `fault "fill-disk": not enabled in this run: allowed are kill-server, lose-reply`},
		{"at 1m1s for 1s kill-server 1", "it must begin and end within the run of 1m0s"},
		{"at 59s for 2s kill-server 1", "it must begin and end within the run"},
		{"at 2562047h for 2562047h kill-server 1", "it must begin and end within the run"},
		{"at -1s for 2s kill-server 1", "it must begin and end within the run"},
		{"at 1s for -2s kill-server 1", "it must begin and end within the run"},
		{"at 1s for 1s slow 5 1s", `contender "5": allowed are 1, 2, 3, 4`},
		{"at 1s for 1s slow 4 x", `delay "x": allowed are times above 0s`},
		{"at 1s for 1s slow 4 0s", `delay "0s": allowed are times above 0s`},
		{"at 1s for 1s step-clock 4 500ms", `step "500ms": allowed are whole seconds`},
		{"at 1s for 1s partition-contender 4 up", `direction "up": allowed are both, to-server, to-client`},
		{"at 1s for 1s lose-reply 4", "1 arguments, want 2: contender request"},
		{"at 1s for 1s lose-reply 4 read", `request "read": allowed are join, release, heartbeat`},
		{"at 1s for 1s delete-node /torture/d 0", `path "/torture/d": allowed are /torture/a, /torture/b, /torture/c, /torture/counted`},
		{"at 1s for 1s delete-node /torture/counted -1", `position "-1": allowed are 0`},
		{"at 1s for 1s reap /torture/counted", `path "/torture/counted": allowed are /torture/a, /torture/b, /torture/c`},
	} {
		plan, err := ReadPlan(strings.NewReader("at 0s for 1m kill-server leader\n" + wrong.line))
		require.NoError(t, err, wrong.line)
		err = checkPlan(o, plan)
		require.ErrorContains(t, err, wrong.want, wrong.line)
		require.ErrorContains(t, err, fmt.Sprintf("plan: %q: ", plan[1]))
		o.Plan = plan
		require.Error(t, o.Check())
	}
}

func TestGeneratedPlanIsPossible(t *testing.T) {
	for _, change := range []func(*Options){
		func(*Options) {},
		func(o *Options) { o.Duration = 10 * time.Second },
		func(o *Options) { o.Servers, o.Timeout, o.Contenders = 5, 40*time.Second, 16 },
		func(o *Options) { o.Servers, o.Timeout, o.Duration = 5, 2*time.Second, time.Hour },
		func(o *Options) { o.Rival = &Rival{Without: map[string]string{"reap": "it has no parents"}} },
		func(o *Options) { o.Faults = []string{"rolling-restart"} },
	} {
		for seed := range uint64(10) {
			o := options(t, func(o *Options) {
				change(o)
				o.Seed = seed
			})
			plan := GeneratePlan(o)
			require.NoError(t, checkPlan(o, plan))
			for _, f := range plan {
				least, most := kinds[f.Kind].lasts(o)
				require.GreaterOrEqual(t, f.For, least.Truncate(time.Millisecond), "%v: too short to have an effect", f)
				require.LessOrEqual(t, f.For, most, f)
			}
		}
	}
}

func TestGeneratedFaultsHaveArgumentsAndDurations(t *testing.T) {
	for _, f := range GeneratePlan(options(t, func(o *Options) { o.Duration = time.Hour })) {
		for _, arg := range f.Args {
			require.NotContains(t, arg, " ")
		}
		require.Positive(t, f.For)
	}
	require.NotEmpty(t, Describe("kill-server"))
}
