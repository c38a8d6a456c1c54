// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"testing"
)

func TestFaultAtNoInstantBreaksPromise(t *testing.T) {
	for _, s := range Sweeps {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			if replaying() {
				t.Skip("the flags select one plan")
			}
			for i := 0; i < instants && !enoughFailures(); i += ifRace(17, 1) {
				runs.instants.Add(1)
				p := s.At(i)
				runAndCheck(t, fmt.Sprintf("%s, instant %d", s.Name, i), repeatFlags(p), p.Run)
			}
		})
	}
}
