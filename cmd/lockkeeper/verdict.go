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

// A measuredTerm is one term as a caller measures it: from the return of Campaign until
// Done was closed.
type measuredTerm struct {
	who   string
	token fencing.Token
	began time.Time
	ended time.Time
	err   error // the error of the term, after its end
}

// measurements are the measurements of one run of the demo.
type measurements struct {
	terms         []measuredTerm
	partitioned   string    // the candidate that was partitioned from ZooKeeper
	partitionedAt time.Time // when the partition began
	stale         error     // the store's answer to the stale write; nil if it accepted the write
	rows          []row     // the writes that the store accepted, in order
}

// verdict returns one line that states whether every claim of the demo holds, and if not,
// all problems.
func verdict(m measurements) (line string, ok bool) {
	terms := slices.SortedFunc(slices.Values(m.terms), func(x, y measuredTerm) int { return x.began.Compare(y.began) })
	old := slices.IndexFunc(terms, func(t measuredTerm) bool { return t.who == m.partitioned })
	if old < 0 || old+1 == len(terms) {
		return fmt.Sprintf("failed: no candidate took over; the terms were %s", names(terms)), false
	}
	from, to := terms[old], terms[old+1]

	problems := slices.Concat(notificationProblems(from, to, m.partitionedAt), overlaps(terms), orderProblems(terms, m.rows))
	switch {
	case m.stale == nil:
		problems = append(problems, fmt.Sprintf("the stale write with token %v was accepted", from.token))
	case !errors.Is(m.stale, fencing.ErrStale):
		problems = append(problems, fmt.Sprintf("the stale write was not rejected as stale: %v", m.stale))
	}
	if len(problems) > 0 {
		return "failed: " + strings.Join(problems, "; "), false
	}
	return fmt.Sprintf("ok: notified %d ms before the next term; tokens rose %v -> %v; the stale write was rejected",
		ms(to.began.Sub(from.ended)), from.token, to.token), true
}

// notificationProblems returns the problems with the notification of the old leader.
func notificationProblems(from, to measuredTerm, partitionedAt time.Time) []string {
	lost := errors.Is(from.err, recipes.ErrLost) && !errors.Is(from.err, recipes.ErrReleased) && !errors.Is(from.err, recipes.ErrClosed)
	switch delay := from.ended.Sub(to.began); {
	case !lost:
		return []string{fmt.Sprintf("%s was not notified of a loss: its term ended with %v", from.who, from.err)}
	case from.ended.Before(partitionedAt):
		return []string{fmt.Sprintf("%s lost its term %d ms before the partition: %v", from.who, ms(partitionedAt.Sub(from.ended)), from.err)}
	case delay >= 0:
		return []string{fmt.Sprintf("%s was notified %d ms after %s led", from.who, ms(delay), to.who)}
	}
	return nil
}

// overlaps returns the pairs of terms that overlapped. terms are in the order in which they began.
func overlaps(terms []measuredTerm) (problems []string) {
	for i, earlier := range terms {
		for _, later := range terms[i+1:] {
			if !earlier.ended.Before(later.began) {
				both := min(earlier.ended.Sub(later.began), later.ended.Sub(later.began))
				problems = append(problems, fmt.Sprintf("%s and %s both led for %d ms", earlier.who, later.who, ms(both)))
			}
		}
	}
	return problems
}

// orderProblems returns where tokens did not rise: from term to term, or in the rows of the store.
func orderProblems(terms []measuredTerm, rows []row) (problems []string) {
	for i := 1; i < len(terms); i++ {
		if terms[i].token <= terms[i-1].token {
			problems = append(problems, fmt.Sprintf("tokens did not rise: %v -> %v", terms[i-1].token, terms[i].token))
		}
	}
	if !slices.IsSortedFunc(rows, func(x, y row) int { return cmp.Compare(x.token, y.token) }) {
		problems = append(problems, "the store accepted an older token after a newer one")
	}
	return problems
}

func names(terms []measuredTerm) string {
	if len(terms) == 0 {
		return "none"
	}
	var who []string
	for _, t := range terms {
		who = append(who, fmt.Sprintf("%s's (token %v)", t.who, t.token))
	}
	return strings.Join(who, ", ")
}

func ms(d time.Duration) int64 { return d.Round(time.Millisecond).Milliseconds() }
