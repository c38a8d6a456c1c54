// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"testing"
)

func TestAtNoInstantDoesACutBreakAPromise(t *testing.T) {
	for _, s := range Sweeps {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			if replays() {
				t.Skip("one plan was asked for")
			}
			for i := 0; i < instants && !enough(); i += ifRace(17, 1) {
				tried.instants.Add(1)
				p := s.At(i)
				judged(t, fmt.Sprintf("%s, instant %d", s.Name, i), againOf(p), p.Run)
			}
		})
	}
}
