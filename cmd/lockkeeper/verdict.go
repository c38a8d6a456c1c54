// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A reign is one term as it was measured from outside: from the return of
// Campaign until Done was closed.
type reign struct {
	who   string
	token fencing.Token
	began time.Time
	ended time.Time
	err   error // the term's, after its end
}

// An account is what was measured in a demo.
type account struct {
	reigns []reign
	cutOff string    // who was cut off from ZooKeeper
	cutAt  time.Time // when
	late   error     // what the store answered to the late write; nil: it took it
	rows   []row     // what the store took, in order
}

// verdict says in one line whether the demo has shown what it promises, and if
// not, all that is wrong.
func verdict(a account) (line string, ok bool) {
	reigns := slices.SortedFunc(slices.Values(a.reigns), func(x, y reign) int { return x.began.Compare(y.began) })
	old := slices.IndexFunc(reigns, func(r reign) bool { return r.who == a.cutOff })
	if old < 0 || old+1 == len(reigns) {
		return fmt.Sprintf("failed: nobody took over; the terms were %s", names(reigns)), false
	}
	from, to := reigns[old], reigns[old+1]

	problems := slices.Concat(untold(from, to, a.cutAt), overlaps(reigns), unordered(reigns, a.rows))
	switch {
	case a.late == nil:
		problems = append(problems, fmt.Sprintf("the late write with token %v was admitted", from.token))
	case !errors.Is(a.late, fencing.ErrStale):
		problems = append(problems, fmt.Sprintf("the late write was not refused as stale: %v", a.late))
	}
	if len(problems) > 0 {
		return "failed: " + strings.Join(problems, "; "), false
	}
	return fmt.Sprintf("ok: told %d ms before another held; tokens rose %v -> %v; the late write was refused",
		ms(to.began.Sub(from.ended)), from.token, to.token), true
}

// untold says what is wrong with how the old leader learned of its loss.
func untold(from, to reign, cutAt time.Time) []string {
	lost := errors.Is(from.err, recipes.ErrLost) && !errors.Is(from.err, recipes.ErrReleased) && !errors.Is(from.err, recipes.ErrClosed)
	switch late := from.ended.Sub(to.began); {
	case !lost:
		return []string{fmt.Sprintf("%s was not told of a loss: its term ended with %v", from.who, from.err)}
	case from.ended.Before(cutAt):
		return []string{fmt.Sprintf("%s lost its term %d ms before it was cut off: %v", from.who, ms(cutAt.Sub(from.ended)), from.err)}
	case late >= 0:
		return []string{fmt.Sprintf("%s was told %d ms after %s held", from.who, ms(late), to.who)}
	}
	return nil
}

// overlaps says which terms, in the order in which they began, were held at once.
func overlaps(reigns []reign) (problems []string) {
	for i, earlier := range reigns {
		for _, later := range reigns[i+1:] {
			if !earlier.ended.Before(later.began) {
				both := min(earlier.ended.Sub(later.began), later.ended.Sub(later.began))
				problems = append(problems, fmt.Sprintf("%s and %s both held for %d ms", earlier.who, later.who, ms(both)))
			}
		}
	}
	return problems
}

// unordered says where tokens fell: from term to term, or in what the store took.
func unordered(reigns []reign, rows []row) (problems []string) {
	for i := 1; i < len(reigns); i++ {
		if reigns[i].token <= reigns[i-1].token {
			problems = append(problems, fmt.Sprintf("tokens did not rise: %v -> %v", reigns[i-1].token, reigns[i].token))
		}
	}
	if !slices.IsSortedFunc(rows, func(x, y row) int { return cmp.Compare(x.token, y.token) }) {
		problems = append(problems, "the store took an older token after a newer one")
	}
	return problems
}

func names(reigns []reign) string {
	if len(reigns) == 0 {
		return "none"
	}
	var who []string
	for _, r := range reigns {
		who = append(who, fmt.Sprintf("%s's (token %v)", r.who, r.token))
	}
	return strings.Join(who, ", ")
}

func ms(d time.Duration) int64 { return d.Round(time.Millisecond).Milliseconds() }
