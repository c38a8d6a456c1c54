// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
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
func (q *Queue) Claim(ctx context.Context) (*Claim, error) {
	return q.contend(ctx, func(ctx context.Context, s *queueSession) (*Claim, error) { return q.claimIn(ctx, s) })
}

// Try takes the claim if the queue is empty, and otherwise returns a *BusyError
// that names the first contender. It waits for answers, not for contenders. If
// the queue is not empty, it creates nothing, and costs two reads.
func (q *Queue) Try(ctx context.Context) (*Claim, error) {
	return q.contend(ctx, func(ctx context.Context, s *queueSession) (*Claim, error) { return q.tryIn(ctx, s) })
}

// contend runs attempt in a session, and again in the next one if the session ends.
func (q *Queue) contend(ctx context.Context, attempt func(context.Context, *queueSession) (*Claim, error)) (*Claim, error) {
	if ctx == nil {
		return nil, &Error{Op: "claim", Path: q.path, Err: errNilContext}
	}
	for {
		if ctx.Err() != nil {
			return nil, &Error{Op: "claim", Path: q.path, Err: withCtx(ctx, ctx.Err())}
		}
		s, err := q.client.session(ctx)
		if err != nil {
			return nil, &Error{Op: "claim", Path: q.path, Err: withCtx(ctx, err)}
		}
		began := time.Now()
		c, err := attempt(ctx, s)
		if err == nil {
			q.client.report.granted(q.path, c.Path(), c.token, time.Since(began))
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, &Error{Op: "claim", Path: q.path, Err: withCtx(ctx, err)}
		}
		switch cause := s.Ended(); {
		case errors.Is(cause, ErrClosed):
			return nil, &Error{Op: "claim", Path: q.path, Err: cause}
		case cause != nil:
			q.client.report.rejoined(q.path, cause)
		case errors.Is(err, ErrDeleted), errors.Is(err, ErrDeadline), errors.Is(err, errOtherParent):
			q.client.report.rejoined(q.path, err)
		default:
			return nil, err
		}
	}
}

// claimIn is Claim within one session: join, wait, grant, or abandon on any failure.
func (q *Queue) claimIn(ctx context.Context, s *queueSession) (*Claim, error) {
	p, alone, err := q.join(ctx, s, -1)
	if err != nil {
		return nil, err
	}
	if !alone {
		err = q.await(ctx, s, p)
	}
	var c *Claim
	if err == nil {
		c, err = s.grant(ctx, p)
	}
	if err != nil {
		q.abandon(s, p)
		return nil, err
	}
	return c, nil
}

// tryIn is Try within one session.
//
// Of several tries on an empty queue at the same time, one joins and the others create
// nothing. If each created a node, the nodes of the losers would block each other and all
// other contenders until they are deleted, although no contender holds the claim.
func (q *Queue) tryIn(ctx context.Context, s *queueSession) (*Claim, error) {
	for {
		lst, err := s.list(ctx, q.path)
		if err != nil {
			return nil, err
		}
		front, found, err := q.front(ctx, s, slices.Clone(lst.members))
		switch {
		case err != nil:
			return nil, err
		case found:
			q.observe(front, time.Now())
			return nil, &BusyError{Path: q.path, Front: front}
		}
		version := int32(0) // of a parent that is created now
		if lst.parent != nil {
			version = lst.parent.Version
		}
		p, alone, err := q.join(ctx, s, version)
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
		c, err := s.grant(ctx, p)
		if err != nil {
			q.abandon(s, p)
		}
		return c, err
	}
}

// checkFirst returns a *BusyError if a contender is ahead of the place.
func (q *Queue) checkFirst(ctx context.Context, s *queueSession, p *place) error {
	for {
		ahead, found, err := q.ahead(ctx, s, p)
		if err != nil || !found {
			return err
		}
		front, err := q.read(ctx, s, ahead.name)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return err
		}
		q.observe(front, time.Now())
		return &BusyError{Path: q.path, Front: front}
	}
}
