// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A blockedError reports that a request has to wait behind other contenders.
type blockedError struct {
	queue    *queue
	requests *recipes.Requests
	ahead    []string // the front first
}

// Error returns the number of contenders ahead.
func (e *blockedError) Error() string { return fmt.Sprintf("%d contenders are ahead", len(e.ahead)) }

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
	return a.again(a.caller, "acquire", a.req.Path, a.endPoll)
}

// await waits for the nearest contender ahead. A change of it costs one read.
func (a *acquisition) await(b *blockedError, w *waiter) error {
	ahead := b.ahead[len(b.ahead)-1]
	timer := time.NewTimer(time.Until(a.until))
	defer timer.Stop()
	for {
		ctx, cancel := context.WithDeadline(a.caller, a.until.Add(time.Millisecond))
		_, changed, err := b.requests.Watch(ctx, ahead)
		cancel()
		switch {
		case errors.Is(err, zk.ErrNoNode), err != nil && b.requests.Ended() != nil:
			return nil
		case a.gone() != nil:
			return a.gone()
		case errors.Is(err, context.DeadlineExceeded):
			return errPollOver
		case err != nil:
			return err
		}
		select {
		case <-changed:
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

// endPoll ends a poll: with a *WaitingError, after a renewal, if wait time is left; otherwise
// with a *HeldError, after the deletion of the node. It returns nil if the lease can perhaps be
// granted after all.
func (a *acquisition) endPoll(ctx context.Context, q *queue, requests *recipes.Requests) error {
	if !a.wrote {
		return nil
	}
	names, err := requests.Names(ctx)
	if err != nil {
		return err
	}
	i := slices.Index(names, a.name)
	if i <= 0 {
		return nil
	}
	if !a.waitsOn() {
		if err := a.remove(ctx, requests); err != nil {
			return err
		}
		return a.held(ctx, q, requests, names[:i])
	}
	if err := a.write(ctx, requests, false, waitTTL); err != nil {
		if errors.Is(err, zk.ErrBadVersion) {
			return ErrSuperseded
		}
		return err
	}
	a.deletable = false // the caller is about to be answered
	err = a.held(ctx, q, requests, names[:i])
	var held *HeldError
	if errors.As(err, &held) {
		return &WaitingError{Path: a.req.Path, Position: i, Front: held.Front, RetryAfter: 0}
	}
	return err
}

// waitsOn reports whether wait time is left when the poll is over.
func (a *acquisition) waitsOn() bool {
	select {
	case <-a.drained:
		return true
	default:
		return a.req.Wait > maxPoll
	}
}
