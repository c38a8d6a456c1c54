// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// stand campaigns at lockPath and leads for d. It must lead in the end: no candidate waits for ever.
func (p *Process) stand(d time.Duration) {
	p.must(p.do(Operation{"campaign", lockPath, d, 8 * p.world.opts.Timeout}))
}

// handOverLater hands the term over to the successor, if there is one.
func (p *Process) handOverLater(term *election.Term) {
	if p.succession.successor == "" {
		return
	}
	p.working.Go(func() {
		time.Sleep(p.succession.after)
		if !p.waitRunning() {
			return
		}
		ctx, cancel := context.WithTimeout(p.ctx, p.world.opts.Timeout)
		defer cancel()
		_, err := term.HandOver(ctx, p.succession.successor)
		switch {
		case err == nil, errors.Is(err, election.ErrNotCandidate), errors.Is(err, recipes.ErrLost), errors.Is(err, recipes.ErrUncertain),
			ctx.Err() != nil:
		default:
			p.world.problemf("%s: hand over: undocumented error: %w", p.name, err)
		}
	})
}

// checkTurn records a problem if a term was granted to a candidate ahead of the target of the last hand-over. The former leader's
// node has been deleted before the grant, and its hand-over was committed while the node existed: so the candidate must
// have seen it. The target must still be in the queue: its node is never created again.
func (w *World) checkTurn(granted history.Event) {
	w.mu.Lock()
	h := w.handedOver
	w.mu.Unlock()
	if granted.Path != h.Path || granted.Token <= h.Token {
		return
	}
	if _, stat, err := w.ensemble.Get(h.Path + "/" + h.Text); err == nil && history.ID(stat.Czxid) > granted.Token {
		w.problemf("%s leads with token %v although the term %v was handed over to %s, which is in the queue",
			granted.Contender, granted.Token, h.Token, h.Text)
	}
}
