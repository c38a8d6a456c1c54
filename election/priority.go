// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/candidacy"
	"github.com/lockkeeper/lockkeeper/internal/ctxerr"
	"github.com/lockkeeper/lockkeeper/internal/node"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/record"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// MaxPriority is the highest value of Options.Priority.
const MaxPriority = protocol.MaxPriority

// isFor reports whether the sign asks the candidate with that token and priority to yield: when
// that candidate was the first, its heir has written it.
func (s sign) isFor(first fencing.Token, priority int, behind []candidacy.Rank) bool {
	return s.First == first && s.Node != "" && s.Node == heir(priority, behind)
}

// heir returns the name of the first candidate that has a higher priority, an empty name if there is
// none. Only that one counts: if the first candidate yielded for one behind the heir, and the
// heir were dead, the heir would be the first, and block the election until its session expires.
func heir(priority int, behind []candidacy.Rank) string {
	for _, r := range behind {
		if r.Priority > priority {
			return r.Name
		}
	}
	return ""
}

// showLiveness writes a sign for each first candidate whose heir the candidate is, while the
// candidate waits. An error ends that: then the candidate leads in its turn, as without priority.
func (c *candidate) showLiveness(ctx context.Context, p *candidacy.Position) {
	e := c.election
	if err := c.awaitSeniors(ctx, p); err != nil {
		return
	}
	for {
		front, err := e.queue.Front(ctx)
		if err != nil {
			return
		}
		first := front.Contender
		if !front.Empty && first.Token < p.Token() && first.Priority < e.priority {
			heir, err := c.sign(ctx, p, first)
			if err != nil {
				return
			}
			if heir != "" {
				if err := c.awaitLeft(ctx, heir, front.Changed); err != nil {
					return
				}
				continue
			}
		}
		select {
		case <-front.Changed:
		case <-ctx.Done():
			return
		}
	}
}

// awaitLeft waits until the heir of the first candidate has left, or the front has changed.
func (c *candidate) awaitLeft(ctx context.Context, heir string, changed <-chan struct{}) error {
	node, err := node.New(c.election.client, c.election.path+"/"+heir)
	if err != nil {
		return err
	}
	either, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	watching.Go(func() {
		select {
		case <-changed:
			stop()
		case <-either.Done():
		}
	})
	if err := node.AwaitDeleted(either); err != nil && either.Err() == nil {
		return err
	}
	return ctx.Err()
}

// awaitSeniors waits until no candidate ahead has at least this one's priority: until then no candidate yields for this
// one. It watches the nearest of these. Otherwise each of n candidates would list the queue for each one that leads or yields.
func (c *candidate) awaitSeniors(ctx context.Context, p *candidacy.Position) error {
	e := c.election
	for {
		ahead, err := p.Ahead(ctx)
		if err != nil {
			return err
		}
		name := senior(e.priority, ahead)
		if name == "" {
			return nil
		}
		node, err := node.New(e.client, e.path+"/"+name)
		if err != nil {
			return err
		}
		if err := node.AwaitDeleted(ctx); err != nil {
			return err
		}
	}
}

// senior returns the name of the last candidate that has at least the priority, an empty name if there is none.
func senior(priority int, ahead []candidacy.Rank) string {
	for _, r := range slices.Backward(ahead) {
		if r.Priority >= priority {
			return r.Name
		}
	}
	return ""
}

// sign writes a sign for the first candidate, unless another one is its heir, whose name it returns.
func (c *candidate) sign(ctx context.Context, p *candidacy.Position, first recipes.Contender) (other string, err error) {
	ahead, err := p.Ahead(ctx)
	if err != nil {
		return "", err
	}
	if other = heir(first.Priority, ahead); other != "" {
		return other, nil
	}
	data, err := signs.Encode(sign{First: first.Token, Node: p.Name()})
	if err != nil {
		return "", err
	}
	return "", p.Write(ctx, c.election.liveness.Node, data)
}

// awaitLive waits until a candidate of a higher priority has shown that it lives, and reports
// whether one did before the end of the priority wait.
func (c *candidate) awaitLive(ctx context.Context, p *candidacy.Position, behind []candidacy.Rank) (bool, error) {
	e := c.election
	bounded, cancel := context.WithDeadline(ctx, c.until)
	defer cancel()
	for {
		shown, changed, err := e.liveness.Watch(bounded)
		if err == nil && shown.First == p.Token() && !shown.isFor(p.Token(), e.priority, behind) {
			behind, err = p.Behind(bounded) // the heir that was listed may have left, and the next one has written the sign
		}
		switch {
		case ctx.Err() != nil:
			return false, fmt.Errorf("await a higher priority: %w", ctxerr.Ended(ctx))
		case errors.Is(err, context.DeadlineExceeded):
			return false, nil
		case err != nil && !record.IsForeign(err):
			return false, nil //nolint:nilerr // a server refuses: priorities are not in use, and must not keep the election from a leader
		case shown.isFor(p.Token(), e.priority, behind):
			return true, nil
		}
		select {
		case <-changed:
		case <-bounded.Done():
		}
	}
}

// priorityWait returns the option's value or its default.
func priorityWait(o *Options) time.Duration {
	if o.PriorityWait == 0 {
		return DefaultPriorityWait
	}
	return o.PriorityWait
}
