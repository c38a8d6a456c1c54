// SPDX-License-Identifier: Apache-2.0

//go:build unix

package register

import (
	"cmp"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// A Holding is a hold as the registers know it: the grant that wrote the newest token of a path.
type Holding struct {
	Path, Contender string
	Attempt         int
	Since, Last     history.Instant // of its writes
}

// Holdings returns the newest holds of all paths, those that began last first.
func (r *Registers) Holdings() []Holding {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Holding
	for _, b := range r.books {
		all = append(all, b.holding)
	}
	slices.SortFunc(all, func(a, b Holding) int { return cmp.Compare(b.Since, a.Since) })
	return all
}

// holdsNow records a write of the newest grant of a path.
func (b *book) holdsNow(by history.Event) {
	if b.holding.Attempt != by.Attempt {
		b.holding = Holding{Path: by.Path, Contender: by.Contender, Attempt: by.Attempt, Since: by.At}
	}
	b.holding.Last = by.At
}
