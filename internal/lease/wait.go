// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// watch waits until the lease can perhaps be granted, the poll is over, or the caller has gone. Meanwhile the replica renews
// the request's node.
func (a *acquisition) watch(ctx context.Context, st *step) {
	began := time.Now()
	s := st.then
	w := a.replica.waiters.add(a.requests, s.own, s.kept)
	s.over, s.err = a.await(ctx, w, st.name)
	s.own = a.replica.waiters.remove(w)
	s.lost, s.kept = w.err, w.kept
	a.state, a.waited = s, a.waited+time.Since(began)
}

// await waits for the nearest contender ahead, and reports whether the poll is over. A change of that contender costs one read.
func (a *acquisition) await(ctx context.Context, w *waiter, ahead string) (over bool, err error) {
	end := time.After(time.Until(a.until))
	for {
		bounded, cancel := context.WithDeadline(ctx, a.until.Add(time.Millisecond))
		watch, err := a.requests.Watch(bounded, ahead)
		cancel()
		switch {
		case errors.Is(err, zk.ErrNoNode):
			// It has left: this session has seen the request's own node, which was created later.
			a.queue.line.left(ahead)
			return false, nil
		case err != nil && a.requests.Ended() != nil:
			return false, nil
		case ctx.Err() != nil:
			return false, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			return true, nil
		case err != nil:
			return false, err
		}
		select {
		case <-watch.Fired():
			if watch.Deleted() {
				a.queue.line.left(ahead)
			}
			if !watch.Changed() {
				return false, nil // it has left, or the session is over
			}
		case <-w.lost:
			return false, nil
		case <-end:
			return true, nil
		case <-a.replica.drained:
			return true, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}
