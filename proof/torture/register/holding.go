// SPDX-License-Identifier: Apache-2.0

//go:build unix

package register

import (
	"cmp"
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// A Holding is a hold as the registers observe it: the grant whose write had the newest token of a path.
type Holding struct {
	Path, Contender string
	Attempt         int
	Since, Last     history.Instant // of its writes
}

// Holdings returns the newest hold of each path. The one that began last comes first.
func (r *Registers) Holdings() []Holding {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Holding
	for _, p := range r.pairs {
		all = append(all, p.holding)
	}
	slices.SortFunc(all, func(a, b Holding) int { return cmp.Compare(b.Since, a.Since) })
	return all
}

// recordHolding records a write of the newest grant of the path.
func (p *pair) recordHolding(by history.Event) {
	if p.holding.Attempt != by.Attempt {
		p.holding = Holding{Path: by.Path, Contender: by.Contender, Attempt: by.Attempt, Since: by.At}
	}
	p.holding.Last = by.At
}
