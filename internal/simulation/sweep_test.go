// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/simulation/history"
)

func TestDeceptionsAtEachInstant(t *testing.T) {
	for _, s := range Sweeps {
		t.Run(s.Name, func(t *testing.T) {
			for i := range s.Runs() {
				events, faults := inBubble(t, func() ([]history.Event, error) { return s.Run(i) })
				if len(faults) > 0 {
					t.Fatalf("%s\nhistory: %s", strings.Join(faults, "\n"), keep(t, fmt.Sprint("instant-", i), events))
				}
			}
		})
	}
}
