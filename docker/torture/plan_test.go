// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func options(t *testing.T, change func(*Options)) *Options {
	t.Helper()
	o := &Options{Duration: 10 * time.Minute, Seed: 1, Servers: 3, Steps: true}
	if change != nil {
		change(o)
	}
	require.NoError(t, o.Check())
	return o
}

func TestPlanHasAllKindsAndIsTheSameForTheSameSeed(t *testing.T) {
	o := options(t, nil)
	plan := Draw(o)
	require.Equal(t, plan, Draw(options(t, nil)))
	require.NotEqual(t, plan, Draw(options(t, func(o *Options) { o.Seed = 2 })))
	seen := map[string]int{}
	for _, f := range plan {
		seen[f.Kind]++
	}
	for _, kind := range Kinds() {
		if kinds[kind].inject == nil {
			require.Zero(t, seen[kind], kind)
			continue
		}
		require.Greater(t, seen[kind], 3, kind)
	}
	require.Greater(t, len(plan), 100, "every few seconds")
}

func TestPlanTakesAllFaultsBackBeforeTheEndAndHasThreeAtOnceAtMost(t *testing.T) {
	for seed := range uint64(20) {
		o := options(t, func(o *Options) { o.Seed, o.Duration = seed, 2*time.Minute })
		plan := Draw(o)
		together := false
		for i, f := range plan {
			require.LessOrEqual(t, f.At+f.For, o.Duration-o.quiet(), f)
			atOnce := 1
			for _, other := range slices.Concat(plan[:i], plan[i+1:]) {
				if other.At <= f.At && f.At < other.At+other.For {
					atOnce++
				}
			}
			require.LessOrEqual(t, atOnce, 3, "%v", f)
			together = together || atOnce > 1
		}
		require.True(t, together)
	}
}

func TestPlanIsReadAsItWasWritten(t *testing.T) {
	plan := Draw(options(t, nil))
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

func TestEveryFaultThatIsDrawnKnowsItsArguments(t *testing.T) {
	for _, f := range Draw(options(t, func(o *Options) { o.Duration = time.Hour })) {
		for _, arg := range f.Args {
			require.NotContains(t, arg, " ")
		}
		require.Positive(t, f.For)
	}
	require.NotEmpty(t, Says("kill-server"))
}
