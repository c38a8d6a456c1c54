// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// endPoll ends a poll: with a *WaitingError, after a renewal, if wait time is left; otherwise
// with a *HeldError, after the deletion of the node. It returns nil if the lease can perhaps be
// granted after all. ahead is the nearest contender ahead.
func (a *acquisition) endPoll(ctx context.Context, q *queue, requests *recipes.Requests, ahead string) error {
	if !a.wrote {
		return nil
	}
	front, position, err := a.position(ctx, q, requests)
	if err != nil || position == 0 {
		return err
	}
	if !a.waitsOn() {
		if err := a.remove(ctx, requests); err != nil {
			return err
		}
		return &HeldError{Path: a.req.Path, Front: front, RetryAfter: retryAfter(front)}
	}
	if err := a.write(ctx, requests, false, askWithin); err != nil {
		if errors.Is(err, zk.ErrBadVersion) {
			return ErrSuperseded
		}
		return err
	}
	a.deletable = false // the caller is about to be answered
	a.written.set(a.req.Path, write{node: a.own, ahead: ahead})
	return &WaitingError{Path: a.req.Path, Position: position, Front: front, AskWithin: askWithin}
}

// position returns the number of contenders ahead, and the first of them. It returns 0 if there is
// none, or the node is missing.
func (a *acquisition) position(ctx context.Context, q *queue, requests *recipes.Requests) (front recipes.Contender, ahead int, err error) {
	for list, old := q.recent, true; ; list, old = q.soon, false {
		names, err := list(ctx, requests)
		if err != nil {
			return front, 0, err
		}
		switch ahead = slices.Index(names, a.name); {
		case ahead < 0 && old:
			continue
		case ahead <= 0:
			return front, 0, nil
		}
		front, err = requests.Read(ctx, names[0])
		if errors.Is(err, zk.ErrNoNode) {
			continue // it has left
		}
		if err == nil {
			q.Observe(front)
		}
		return front, ahead, err
	}
}

// waitsOn reports whether wait time is left when the poll is over.
func (a *acquisition) waitsOn() bool {
	select {
	case <-a.drained:
		return true
	default:
		return a.req.Wait > a.req.poll()
	}
}

// held returns the *HeldError that names the first contender, and observes it.
func (a *acquisition) held(ctx context.Context, q *queue, requests *recipes.Requests, names []string) error {
	for _, name := range names {
		front, err := requests.Read(ctx, name)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return err
		}
		q.Observe(front)
		return &HeldError{Path: a.req.Path, Front: front, RetryAfter: retryAfter(front)}
	}
	return errAgain // all have left
}

// retryAfter estimates when it is worth asking again.
func retryAfter(front recipes.Contender) time.Duration {
	const least = time.Second
	if front.Lease == nil {
		return least
	}
	return min(max(time.Until(front.Written.Add(front.TTL)), least), front.TTL)
}
