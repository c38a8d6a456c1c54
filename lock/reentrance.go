// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"fmt"
	"sync"

	"github.com/lockkeeper/lockkeeper/internal/ctxerr"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A lockKey is the key under which the context of a re-entrant hold carries its acquisition. Locks
// of one client and one path are the same lock, whichever Mutex they are used through.
type lockKey struct {
	client *recipes.Client
	path   string
}

// An acquisition is a claim and the open holds that share it: one, or several of a re-entrant lock.
type acquisition struct {
	claim *recipes.Claim
	queue *queue.Queue
	key   *lockKey // nil unless the lock is re-entrant

	mu   sync.Mutex // guards open
	open int        // holds that were not unlocked
}

// newHold returns the first hold of a claim.
func (m *Mutex) newHold(claim *recipes.Claim) *Hold {
	a := &acquisition{claim: claim, queue: m.queue, open: 1}
	if m.reentrant {
		a.key = &lockKey{m.client, m.queue.Path()}
	}
	return &Hold{Claim: claim, acquisition: a}
}

// outer returns the acquisition that a call under ctx joins, nil if there is none.
func (m *Mutex) outer(ctx context.Context) *acquisition {
	if !m.reentrant || ctx == nil {
		return nil
	}
	a, _ := ctx.Value(lockKey{m.client, m.queue.Path()}).(*acquisition)
	return a
}

// join returns a further hold of the acquisition. It fails if the acquisition has ended: a nested
// call that took the lock anew would hide from the work that another client may have held it.
func (a *acquisition) join(ctx context.Context) (*Hold, error) {
	if err := a.claim.Err(); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("lock: %w", &recipes.Error{Op: "claim", Path: a.queue.Path(), Err: ctxerr.Ended(ctx)})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == 0 { // its last hold is being unlocked
		err := fmt.Errorf("%w: %w", recipes.ErrLost, recipes.ErrReleased)
		return nil, fmt.Errorf("lock: %w", &recipes.Error{Op: "hold", Path: a.queue.Path(), Err: err})
	}
	a.open++
	return &Hold{Claim: a.claim, acquisition: a}, nil
}

// leave ends one hold, and the claim with the last one.
func (a *acquisition) leave(ctx context.Context) error {
	a.mu.Lock()
	a.open--
	last := a.open == 0
	a.mu.Unlock()
	if last {
		return a.queue.Release(ctx, a.claim)
	}
	return a.claim.Err()
}

// abandon is leave for a hold under which no work has begun: see Queue.Abandon.
func (a *acquisition) abandon() {
	a.mu.Lock()
	a.open--
	last := a.open == 0
	a.mu.Unlock()
	if last {
		a.queue.Abandon(a.claim)
	}
}

// context returns parent with the acquisition, if the lock is re-entrant.
func (a *acquisition) context(parent context.Context) context.Context {
	if a.key == nil {
		return parent
	}
	return context.WithValue(parent, *a.key, a)
}
