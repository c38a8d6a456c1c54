// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/need"
)

func TestFaultAtNoInstantBreaksPromise(t *testing.T) {
	for _, s := range Sweeps {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			if replaying() {
				t.Skip("the flags select one plan")
			}
			atInstants(ifRace(17, 1), func(i int) {
				p := s.At(i)
				runAndCheck(t, fmt.Sprintf("%s, instant %d", s.Name, i), repeatFlags(p), p.Run)
			})
		})
	}
}

// atInstants calls run for one instant of step, and in a sample for one of sixteen of these, from a random one on.
func atInstants(step int, run func(i int)) {
	first := 0
	if *every > 1 && !need.RaceDetector {
		step = min(16*step, instants)
		first = rand.N(step)
	}
	for i := first; i < instants && !enoughFailures(); i += step {
		runs.instants.Add(1)
		run(i)
	}
}
