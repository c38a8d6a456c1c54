// SPDX-License-Identifier: Apache-2.0

package queue

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
	"github.com/lockkeeper/lockkeeper/recipes"
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
func (q *Queue) Claim(ctx context.Context) (*recipes.Claim, error) {
	return q.ClaimAs(ctx, protocol.Exclusive)
}

// ClaimAs is Claim for any mode. A reader waits until no contender of another mode is ahead of it
// in the queue, and is then granted the claim beside other readers.
func (q *Queue) ClaimAs(ctx context.Context, mode protocol.Mode) (*recipes.Claim, error) {
	if err := q.CheckMode(mode); err != nil {
		return nil, err
	}
	return q.Contend(ctx, func(ctx context.Context, s *client.Session) (*recipes.Claim, error) {
		return q.ClaimIn(ctx, s, q.SessionEntry(s, mode), q.Await)
	})
}

// Try takes the claim if the queue is empty, and otherwise returns a *BusyError
// that names the first contender. It waits for answers, not for contenders. If
// the queue is not empty, it creates nothing, and costs two reads.
//
// If another contender joins between a listing that shows an empty queue and the create that follows, Try creates nothing and
// lists again. After the second such race it returns a *BusyError: another client has had the claim since the call began. Its Front
// is the first contender by then, and has no Name if the queue is empty again.
func (q *Queue) Try(ctx context.Context) (*recipes.Claim, error) {
	return q.TryAs(ctx, protocol.Exclusive)
}

// TryAs is Try for any mode. A reader takes the claim if no contender of another mode is in the
// queue, as a holder or as a waiter; the *BusyError names the first such contender.
func (q *Queue) TryAs(ctx context.Context, mode protocol.Mode) (*recipes.Claim, error) {
	if err := q.CheckMode(mode); err != nil {
		return nil, err
	}
	return q.Contend(ctx, func(ctx context.Context, s *client.Session) (*recipes.Claim, error) { return q.tryIn(ctx, s, mode) })
}

// ErrMode is the error of a claim that cannot leave a breadcrumb. Several readers and permits are
// held at the same time, and the breadcrumb names one holder.
var ErrMode = errors.New("a lock-delay and a fence function are possible for exclusive claims only")

// CheckMode returns an error for a mode in which the queue cannot be claimed.
func (q *Queue) CheckMode(mode protocol.Mode) error {
	switch {
	case !protocol.ValidMode(mode):
		return &recipes.Error{Op: "claim", Path: q.path, Err: fmt.Errorf("mode %d is unknown", mode)}
	case q.Takeover != nil && mode != protocol.Exclusive:
		return &recipes.Error{Op: "claim", Path: q.path, Err: ErrMode}
	}
	return nil
}

// Contend is contendIn, and reports its result.
func (q *Queue) Contend(ctx context.Context, attempt func(context.Context, *client.Session) (*recipes.Claim, error)) (*recipes.Claim, error) {
	if ctx == nil {
		return nil, &recipes.Error{Op: "claim", Path: q.path, Err: sentinel.ErrNilContext}
	}
	began := time.Now()
	c, err := q.contendIn(ctx, attempt)
	if err != nil {
		q.Client.Report().Failed(ctx, q.path, time.Since(began), err)
		return nil, err
	}
	q.Client.Report().Granted(ctx, q.path, c.Path(), c.Token(), time.Since(began))
	if waited, listings := claim.Of(c).Waited(); waited {
		q.Client.Report().HandedOver(q.path, c.Path(), listings)
	}
	return c, nil
}

// contendIn runs attempt in a session, and again in the next one if the session ends.
func (q *Queue) contendIn(ctx context.Context, attempt func(context.Context, *client.Session) (*recipes.Claim, error)) (*recipes.Claim, error) {
	for {
		if ctx.Err() != nil {
			return nil, &recipes.Error{Op: "claim", Path: q.path, Err: sentinel.WithCtx(ctx, ctx.Err())}
		}
		s, err := q.Client.Session(ctx)
		if err != nil {
			return nil, &recipes.Error{Op: "claim", Path: q.path, Err: sentinel.WithCtx(ctx, err)}
		}
		c, err := attempt(ctx, s)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, &recipes.Error{Op: "claim", Path: q.path, Err: sentinel.WithCtx(ctx, err)}
		}
		switch cause := s.Ended(); {
		case errors.As(err, new(*recipes.UnreleasedError)): // first, as it can wrap any error of the fence function
			return nil, err
		case errors.Is(cause, sentinel.ErrClosed):
			return nil, &recipes.Error{Op: "claim", Path: q.path, Err: cause}
		case cause != nil:
			q.Client.Report().Rejoined(q.path, cause)
		case errors.Is(err, sentinel.ErrDeleted), errors.Is(err, sentinel.ErrDeadline), errors.Is(err, errOtherParent),
			errors.Is(err, sentinel.ErrYielded):
			q.Client.Report().Rejoined(q.path, err)
		default:
			return nil, err
		}
	}
}

// ClaimIn is Claim within one session: join, wait, grant, or abandon on any failure.
func (q *Queue) ClaimIn(
	ctx context.Context, s *client.Session, e Entry, await func(context.Context, *client.Session, *Place) error,
) (*recipes.Claim, error) {
	p, alone, err := q.Join(ctx, s, e, -1)
	if err != nil {
		return nil, err
	}
	if !alone {
		err = await(ctx, s, p)
	}
	var c *recipes.Claim
	if err == nil {
		c, err = q.grant(ctx, s, p)
	}
	if err != nil {
		q.Discard(s, p)
		return nil, err
	}
	return c, nil
}

// MaxLostRaces is how often a try that lost to another contender tries again. Where many try for claims that are short, each
// round has one winner, and without a bound some of them lose hundreds of times.
const MaxLostRaces = 2

// maxLeft is how often a try lists again because the listed contenders have left since. After that, it counts a lost race.
const maxLeft = 4

// tryIn is Try within one session.
//
// Of several tries on an empty queue at the same time, one joins and the others create
// nothing. If each created a node, the nodes of the losers would block each other and all
// other contenders until they are deleted, although no contender holds the claim. Readers do not
// block each other, so each of them joins.
func (q *Queue) tryIn(ctx context.Context, s *client.Session, mode protocol.Mode) (*recipes.Claim, error) {
	lost, left := 0, 0
	for {
		lst, err := List(ctx, s, q.path)
		if err != nil {
			return nil, err
		}
		front, found, err := q.FrontFor(ctx, s, slices.Clone(lst.Members), mode)
		switch {
		case err != nil:
			return nil, err
		case found:
			q.ObserveAt(front, time.Now())
			return nil, &recipes.BusyError{Path: q.path, Front: front}
		case lost == MaxLostRaces:
			return nil, &recipes.BusyError{Path: q.path}
		case mode != protocol.Read && left < maxLeft && len(lst.Members) > 0:
			left++ // the listed contenders have, and thereby raised the parent's version
			continue
		}
		version := int32(0) // of a parent that is created now
		switch {
		case mode == protocol.Read:
			version = -1
		case lst.Parent != nil:
			version = lst.Parent.Version
		}
		p, alone, err := q.Join(ctx, s, q.SessionEntry(s, mode), version)
		if errors.Is(err, ErrContended) {
			if ctx.Err() != nil {
				return nil, &recipes.Error{Op: "join", Path: q.path, Err: ctx.Err()}
			}
			lost++
			continue
		}
		if err != nil {
			return nil, err
		}
		if !alone {
			// A contender that does not write the parent, such as one of another
			// library, may have joined between the listing and the create.
			if err := q.CheckFirst(ctx, s, p); err != nil {
				q.Discard(s, p)
				return nil, err
			}
		}
		c, err := q.grant(ctx, s, p)
		if err != nil {
			q.Discard(s, p)
		}
		return c, err
	}
}

// CheckFirst returns a *BusyError if a contender keeps the place from being granted.
func (q *Queue) CheckFirst(ctx context.Context, s *client.Session, p *Place) error {
	for {
		d, err := q.Decide(ctx, s, p)
		if err != nil || d.Granted() {
			return err
		}
		front, found, err := q.FrontFor(ctx, s, slices.Clone(d.Ahead), p.mode)
		if err != nil {
			return err
		}
		if found {
			q.ObserveAt(front, time.Now())
			return &recipes.BusyError{Path: q.path, Front: front}
		}
		if d.Complete { // the node may have been deleted since the listing
			exists, err := p.exists(ctx, s)
			if exists || err != nil {
				return err
			}
		}
	}
}
