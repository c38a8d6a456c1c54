// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/node"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
)

const (
	// sweepers is the segment below Options.Sweep for the election of the sweeper. Keys of
	// the service never contain its first character.
	sweepers = "/=sweeper"

	sweepEvery = 10 * time.Minute
	sweepPause = 10 * time.Millisecond // after each path
	sweepDepth = 8                     // of paths below Options.Sweep
)

// sweep observes the leases whose observers have all disappeared, while this replica is elected
// to do so. Each replica is a contender of the election: one that disappears causes a pass.
func (r *Replica) sweep(root string) {
	q, err := queue.New(r.client, root+sweepers, nil)
	if err != nil {
		r.opts.Logger.Error("leases are not swept", "path", root, "error", err)
		return
	}
	for r.ctx.Err() == nil {
		claim, err := q.Claim(r.ctx)
		if err != nil {
			r.pause(r.ctx, r.client.SessionTimeout())
			continue
		}
		r.sweepWhile(q, claim, root)
		// If it fails, the client goes on deleting the node.
		_ = q.Release(r.ctx, claim)
	}
}

// sweepWhile makes pass after pass while the claim is held.
func (r *Replica) sweepWhile(q *queue.Queue, claim *recipes.Claim, root string) {
	ctx, cancel := claim.Context(r.ctx)
	defer cancel()
	var before []string
	for ctx.Err() == nil {
		// A replica can disappear during the pass, behind which it has renewed leases.
		if requests, err := NewRequests(ctx, q); err == nil {
			before, _ = requests.Names(ctx) // none after an error: the next pass comes later
		}
		r.pass(ctx, root, sweepDepth)
		r.awaitDisappearance(ctx, q, before)
	}
}

// awaitDisappearance waits until another replica has disappeared since before was listed, for
// sweepEvery at most.
func (r *Replica) awaitDisappearance(ctx context.Context, q *queue.Queue, before []string) {
	ctx, cancel := context.WithTimeout(ctx, sweepEvery)
	defer cancel()
	for ctx.Err() == nil {
		requests, err := NewRequests(ctx, q)
		if err != nil {
			return
		}
		changed, err := requests.WatchQueue(ctx)
		if err != nil {
			r.pause(ctx, time.Second)
			continue
		}
		names, err := requests.Names(ctx)
		if err != nil {
			r.pause(ctx, time.Second)
			continue
		}
		for _, name := range before {
			if !slices.Contains(names, name) {
				return
			}
		}
		before = names
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// pass observes all contenders at and below a path. Nodes that it cannot read are left to the
// next pass.
func (r *Replica) pass(ctx context.Context, path string, depth int) {
	if ctx.Err() != nil || depth == 0 {
		return
	}
	node, err := node.New(r.client, path)
	if err != nil {
		return
	}
	children, err := node.Children(ctx)
	if err != nil {
		return
	}
	r.pause(ctx, sweepPause)
	found := false
	for _, name := range children {
		if protocol.IsContender(name) {
			found = true
			continue
		}
		if name[0] == '=' { // the service's own nodes: no key begins so
			continue
		}
		r.pass(ctx, path+"/"+name, depth-1)
	}
	if found {
		r.passQueue(ctx, path, depth)
	}
}

// passQueue observes all contenders of a path. A node without a kind can also be the queue of a
// key that is called like a contender.
func (r *Replica) passQueue(ctx context.Context, path string, depth int) {
	q, err := queue.New(r.client, path, nil)
	if err != nil {
		return
	}
	contenders, err := q.Contenders(ctx)
	if err != nil {
		return
	}
	for _, c := range contenders {
		if c.Kind == "" {
			r.pass(ctx, path+"/"+c.Name, depth-1)
		}
		q.Observe(c)
	}
}

// pause waits, unless ctx ends first.
func (r *Replica) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
