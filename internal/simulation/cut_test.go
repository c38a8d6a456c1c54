// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// thens are where connections are cut a second time, in frames after the first: with none, the first was the only one.
var thens = []int{0, 1, 2}

func TestNoCutAtAnyFrameBreaksAPromise(t *testing.T) {
	for _, s := range Scenarios {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			if *cut != "" {
				v, c, err := ParseCut(*cut)
				require.NoError(t, err)
				for range *repeat {
					tell(t, s, v, c)
				}
				return
			}
			for i, v := range Variants {
				if underRace && i != 1 {
					continue
				}
				tell(t, s, v, Cut{})
				for _, victim := range []string{"a", "b", "c"} {
					tellWithCuts(t, s, v, victim)
				}
			}
		})
	}
}

// tellWithCuts has each frame of one process cut, or each that -sim.every selects, until the scenario does not come to it
// any more.
func tellWithCuts(t *testing.T, s Scenario, v Variant, victim string) {
	t.Helper()
	for _, then := range thens {
		for _, after := range []bool{false, true} {
			first := 1 + rand.N(*every)
			n := first
			for ; tell(t, s, v, Cut{victim, n, after, then}); n += *every {
			}
			if n == first || underRace && then > 0 {
				return // there is no such process, or it sends no more than that
			}
		}
	}
}

func tell(t *testing.T, s Scenario, v Variant, c Cut) (sprung bool) {
	t.Helper()
	if enough() {
		return false
	}
	tried.cuts.Add(1)
	again := fmt.Sprintf("-run %q -sim.cut %q", t.Name(), cutText(v, c))
	judged(t, fmt.Sprintf("%s, %s, %v", s.Name, v.Name, c), again, func() (events []history.Event, err error) {
		events, sprung, err = s.Run(v, c)
		return events, err
	})
	return sprung
}

func TestCutIsWhatItsTextSays(t *testing.T) {
	for _, v := range Variants {
		for _, c := range []Cut{{}, {"a", 3, false, 0}, {"b", 1, true, 0}, {"c", 12, true, 2}} {
			gotV, gotC, err := ParseCut(cutText(v, c))
			require.NoError(t, err)
			require.Equal(t, v, gotV)
			require.Equal(t, c, gotC)
		}
	}
	for _, text := range []string{"", "no such variant: a before 3", "one server: a before 0", "one server: a besides 3", "one server: before 3"} {
		_, _, err := ParseCut(text)
		require.Error(t, err, text)
	}
}
