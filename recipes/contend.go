// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/claim"
	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
)

// Claim joins the queue and waits until it is at the front.
//
// If its session ends while it waits, it joins again in the next one, at the end
// of the queue. It returns a claim, or an error once ctx has ended, the client was
// closed, or the server refused (no permission, for instance). By then its node
// is deleted. If the deletion takes longer than the release timeout, or no server
// can be reached, it continues in the background; no node outlives its session.
//
// If a create is in flight when ctx ends, Claim waits for its answer first: a
// round trip as a rule, and about T/4 at most if no server answers.
func (q *Queue) Claim(ctx context.Context) (*Claim, error) { return q.ClaimAs(ctx, Exclusive) }

// ClaimAs is Claim for any mode. A reader waits until no contender of another mode is ahead of it
// in the queue, and is then granted the claim beside other readers.
func (q *Queue) ClaimAs(ctx context.Context, mode Mode) (*Claim, error) {
	if err := q.checkMode(mode); err != nil {
		return nil, err
	}
	return q.contend(ctx, func(ctx context.Context, s *client.Session) (*Claim, error) {
		return q.claimIn(ctx, s, q.sessionEntry(s, mode), q.await)
	})
}

// Try takes the claim if the queue is empty, and otherwise returns a *BusyError
// that names the first contender. It waits for answers, not for contenders. If
// the queue is not empty, it creates nothing, and costs two reads.
//
// If another contender joins between a listing that shows an empty queue and the create that follows, Try creates nothing and
// lists again. After the second such race it returns a *BusyError: another client has had the claim since the call began. Its Front
// is the first contender by then, and has no Name if the queue is empty again.
func (q *Queue) Try(ctx context.Context) (*Claim, error) { return q.TryAs(ctx, Exclusive) }

// TryAs is Try for any mode. A reader takes the claim if no contender of another mode is in the
// queue, as a holder or as a waiter; the *BusyError names the first such contender.
func (q *Queue) TryAs(ctx context.Context, mode Mode) (*Claim, error) {
	if err := q.checkMode(mode); err != nil {
		return nil, err
	}
	return q.contend(ctx, func(ctx context.Context, s *client.Session) (*Claim, error) { return q.tryIn(ctx, s, mode) })
}

// checkMode returns an error for a mode in which the queue cannot be claimed.
func (q *Queue) checkMode(mode Mode) error {
	switch {
	case !protocol.ValidMode(mode):
		return &Error{Op: "claim", Path: q.path, Err: fmt.Errorf("mode %d is unknown", mode)}
	case q.takeover != nil && mode != Exclusive:
		return &Error{Op: "claim", Path: q.path, Err: errMode}
	}
	return nil
}

// contend is contendIn, and reports its result.
func (q *Queue) contend(ctx context.Context, attempt func(context.Context, *client.Session) (*Claim, error)) (*Claim, error) {
	if ctx == nil {
		return nil, &Error{Op: "claim", Path: q.path, Err: sentinel.ErrNilContext}
	}
	began := time.Now()
	c, err := q.contendIn(ctx, attempt)
	if err != nil {
		q.client.Report().Failed(q.path, time.Since(began), err)
		return nil, err
	}
	q.client.Report().Granted(q.path, c.Path(), c.Token(), time.Since(began))
	if claim.Of(c).Waited() {
		q.client.Report().HandedOver(q.path, c.Path())
	}
	return c, nil
}

// contendIn runs attempt in a session, and again in the next one if the session ends.
func (q *Queue) contendIn(ctx context.Context, attempt func(context.Context, *client.Session) (*Claim, error)) (*Claim, error) {
	for {
		if ctx.Err() != nil {
			return nil, &Error{Op: "claim", Path: q.path, Err: sentinel.WithCtx(ctx, ctx.Err())}
		}
		s, err := q.client.Session(ctx)
		if err != nil {
			return nil, &Error{Op: "claim", Path: q.path, Err: sentinel.WithCtx(ctx, err)}
		}
		c, err := attempt(ctx, s)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, &Error{Op: "claim", Path: q.path, Err: sentinel.WithCtx(ctx, err)}
		}
		switch cause := s.Ended(); {
		case errors.As(err, new(*UnreleasedError)): // first, as it can wrap any error of the fence function
			return nil, err
		case errors.Is(cause, sentinel.ErrClosed):
			return nil, &Error{Op: "claim", Path: q.path, Err: cause}
		case cause != nil:
			q.client.Report().Rejoined(q.path, cause)
		case errors.Is(err, sentinel.ErrDeleted), errors.Is(err, sentinel.ErrDeadline), errors.Is(err, errOtherParent),
			errors.Is(err, ErrSteppedBack):
			q.client.Report().Rejoined(q.path, err)
		default:
			return nil, err
		}
	}
}

// claimIn is Claim within one session: join, wait, grant, or abandon on any failure.
func (q *Queue) claimIn(
	ctx context.Context, s *client.Session, e entry, await func(context.Context, *client.Session, *place) error,
) (*Claim, error) {
	p, alone, err := q.join(ctx, s, e, -1)
	if err != nil {
		return nil, err
	}
	if !alone {
		err = await(ctx, s, p)
	}
	var c *Claim
	if err == nil {
		c, err = q.grant(ctx, s, p)
	}
	if err != nil {
		q.abandon(s, p)
		return nil, err
	}
	return c, nil
}

// maxLostRaces is how often a try that lost to another contender tries again. Where many try for claims that are short, each
// round has one winner, and without a bound some of them lose hundreds of times.
const maxLostRaces = 2

// tryIn is Try within one session.
//
// Of several tries on an empty queue at the same time, one joins and the others create
// nothing. If each created a node, the nodes of the losers would block each other and all
// other contenders until they are deleted, although no contender holds the claim. Readers do not
// block each other, so each of them joins.
func (q *Queue) tryIn(ctx context.Context, s *client.Session, mode Mode) (*Claim, error) {
	for lost := 0; ; lost++ {
		lst, err := list(ctx, s, q.path)
		if err != nil {
			return nil, err
		}
		front, found, err := q.frontFor(ctx, s, slices.Clone(lst.members), mode)
		switch {
		case err != nil:
			return nil, err
		case found:
			q.observe(front, time.Now())
			return nil, &BusyError{Path: q.path, Front: front}
		case lost == maxLostRaces:
			return nil, &BusyError{Path: q.path}
		}
		version := int32(0) // of a parent that is created now
		switch {
		case mode == Read:
			version = -1
		case lst.parent != nil:
			version = lst.parent.Version
		}
		p, alone, err := q.join(ctx, s, q.sessionEntry(s, mode), version)
		if errors.Is(err, errContended) {
			if ctx.Err() != nil {
				return nil, &Error{Op: "join", Path: q.path, Err: ctx.Err()}
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if !alone {
			// A contender that does not write the parent, such as one of another
			// library, may have joined between the listing and the create.
			if err := q.checkFirst(ctx, s, p); err != nil {
				q.abandon(s, p)
				return nil, err
			}
		}
		c, err := q.grant(ctx, s, p)
		if err != nil {
			q.abandon(s, p)
		}
		return c, err
	}
}

// checkFirst returns a *BusyError if a contender keeps the place from being granted.
func (q *Queue) checkFirst(ctx context.Context, s *client.Session, p *place) error {
	for {
		d, err := q.decide(ctx, s, p)
		if err != nil || d.Granted() {
			return err
		}
		front, found, err := q.frontFor(ctx, s, slices.Clone(d.Ahead), p.mode)
		if err != nil {
			return err
		}
		if found {
			q.observe(front, time.Now())
			return &BusyError{Path: q.path, Front: front}
		}
		if d.Complete {
			return nil
		}
	}
}

// grant makes a claim of a place that has no predecessor, and takes it over from a former holder that
// did not release. If the fence function panics, it deletes the node as a failed Claim does.
func (q *Queue) grant(ctx context.Context, s *client.Session, p *place) (*Claim, error) {
	c, err := grant(ctx, s, p)
	if err != nil || q.takeover == nil {
		return c, err
	}
	returned := false
	defer func() {
		if !returned {
			q.abandon(s, p)
		}
	}()
	err = q.takeover.run(ctx, c)
	returned = true
	if err != nil {
		return nil, err
	}
	return c, nil
}
