// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"

	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// shown bounds the contenders in a Status: the cost of one must not grow with the queue.
const shown = 16

// Status returns the contenders of a path, or ErrNotFound if there is none. A lease that has
// expired and that no observer has deleted yet holds the lock. It costs one listing and one
// read for each contender that it returns.
func (r *Replica) Status(ctx context.Context, path string) (Status, error) {
	s, err := r.status(ctx, path)
	if err == nil && len(s.Contenders) == 0 {
		err = &recipes.Error{Op: "status", Path: path, Err: ErrNotFound}
	}
	return s, err
}

// status is Status for a path that may have no contender. It observes those that it returns.
func (r *Replica) status(ctx context.Context, path string) (Status, error) {
	s := Status{Path: path}
	q, err := r.queues.get(path)
	if err != nil {
		return s, &recipes.Error{Op: "status", Path: path, Err: err}
	}
	s.Contenders, s.More, err = queue.ReadFirst(ctx, q.Queue, shown, contenderOf)
	for _, c := range s.Contenders {
		q.Observe(c.Contender)
	}
	return s, err
}
