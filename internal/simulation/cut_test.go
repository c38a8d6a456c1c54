// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/simulation/history"
)

var variants = []Variant{
	{"one server", 1, 0},
	{"three servers", 3, 0},
	{"three servers, of which two lag behind", 3, 250 * time.Millisecond},
}

func TestCuts(t *testing.T) {
	total := 0
	for _, s := range Scenarios {
		runs, bad := 0, 0
		began := time.Now()
		for _, v := range variants {
			tell := func(c Cut) (sprung bool) {
				runs++
				current.Store(fmt.Sprint(s.Name, v.Name, c))
				events, faults := inBubble(t, func() (events []history.Event, err error) {
					events, sprung, err = s.Run(v, c)
					return events, err
				})
				if len(faults) > 0 {
					bad++
					if bad > 3 {
						return false
					}
					t.Errorf("%s, %s, %v:\n%s\nhistory: %s", s.Name, v.Name, c, strings.Join(faults, "\n"), keep(t, "cut", events))
				}
				return sprung
			}
			require.False(t, tell(Cut{}))
			for _, victim := range []string{"a", "b", "c"} {
				for _, then := range []int{0, 1, 2, 3} {
					for _, after := range []bool{false, true} {
						n := 1
						for ; tell(Cut{victim, n, after, then}); n++ {
						}
						if n == 1 {
							break
						}
					}
				}
			}
		}
		fmt.Println(s.Name, runs, time.Since(began))
		total += runs
	}
	fmt.Println(total)
}
