// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A blockedError reports that a request has to wait behind other contenders.
type blockedError struct {
	requests *recipes.Requests
	ahead    string // the nearest one
}

// Error names the nearest contender ahead.
func (e *blockedError) Error() string { return fmt.Sprintf("contender %s is ahead", e.ahead) }

// errPollOver reports that a poll is over.
var errPollOver = errors.New("poll is over")

// wait waits until the lease can perhaps be granted, and returns nil; or until the poll is over
// or the caller has gone. Meanwhile the replica renews the request's node.
func (a *acquisition) wait(b *blockedError) error {
	w := a.waiters.add(b.requests, a.own)
	err := a.await(b, w)
	a.own = a.waiters.remove(w)
	switch {
	case errors.Is(w.err, zk.ErrBadVersion):
		a.forget(false)
		return ErrSuperseded
	case errors.Is(w.err, zk.ErrNoNode): // it expired, or was deleted by force
		a.forget(true)
	case w.err != nil:
		a.forget(false)
	}
	if !errors.Is(err, errPollOver) {
		return err
	}
	return a.again(a.caller, "acquire", a.req.Path, func(ctx context.Context, q *queue, requests *recipes.Requests) error {
		return a.endPoll(ctx, q, requests, b.ahead)
	})
}

// await waits for the nearest contender ahead. A change of it costs one read.
func (a *acquisition) await(b *blockedError, w *waiter) error {
	timer := time.NewTimer(time.Until(a.until))
	defer timer.Stop()
	for {
		ctx, cancel := context.WithDeadline(a.caller, a.until.Add(time.Millisecond))
		watch, err := b.requests.Watch(ctx, b.ahead)
		cancel()
		switch {
		case errors.Is(err, zk.ErrNoNode):
			// It has left: this session has seen the request's own node, which was created later.
			a.queueOf().line.left(b.ahead)
			return nil
		case err != nil && b.requests.Ended() != nil:
			return nil
		case a.gone() != nil:
			return a.gone()
		case errors.Is(err, context.DeadlineExceeded):
			return errPollOver
		case err != nil:
			return err
		}
		select {
		case <-watch.Fired():
			if watch.Deleted() {
				a.queueOf().line.left(b.ahead)
			}
			if !watch.Changed() {
				return nil // it has left, or the session is over
			}
		case <-w.lost:
			return nil
		case <-timer.C:
			return errPollOver
		case <-a.drained:
			return errPollOver
		case <-a.caller.Done():
			return a.gone()
		}
	}
}
