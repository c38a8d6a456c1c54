// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// Claim joins the line and waits until it is at the front.
//
// If its session dies while it waits, it joins again in the next one, at the end
// of the line. It returns a claim, or an error once ctx has ended, the client was
// closed, or the server refused (no permission, for instance). By then its node
// is gone, or, if that takes longer than the release timeout or the server cannot
// be reached, is being taken away in the background; no node outlives its session.
//
// A create that is under way when ctx ends is seen through to its answer first: a
// round trip as a rule, and about T/4 at most if no server answers.
func (l *Line) Claim(ctx context.Context) (*Claim, error) {
	return l.contend(ctx, func(ctx context.Context, s *queueSession) (*Claim, error) { return l.claimIn(ctx, s) })
}

// Try takes the claim if nobody is in line, and otherwise returns a *BusyError
// that says who is first. It waits for answers, not for contenders. If somebody
// is in line it creates nothing, and costs two reads.
func (l *Line) Try(ctx context.Context) (*Claim, error) {
	return l.contend(ctx, func(ctx context.Context, s *queueSession) (*Claim, error) { return l.tryIn(ctx, s) })
}

// contend runs attempt in a session, and again in the next if it is over.
func (l *Line) contend(ctx context.Context, attempt func(context.Context, *queueSession) (*Claim, error)) (*Claim, error) {
	if ctx == nil {
		return nil, &Error{Op: "claim", Path: l.path, Err: errNilContext}
	}
	for {
		if ctx.Err() != nil {
			return nil, &Error{Op: "claim", Path: l.path, Err: withCtx(ctx, ctx.Err())}
		}
		s, err := l.client.session(ctx)
		if err != nil {
			return nil, &Error{Op: "claim", Path: l.path, Err: withCtx(ctx, err)}
		}
		began := time.Now()
		c, err := attempt(ctx, s)
		if err == nil {
			l.client.report.granted(l.path, c.Path(), c.token, time.Since(began))
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, &Error{Op: "claim", Path: l.path, Err: withCtx(ctx, err)}
		}
		switch cause := s.Ended(); {
		case errors.Is(cause, ErrClosed):
			return nil, &Error{Op: "claim", Path: l.path, Err: cause}
		case cause != nil:
			l.client.report.rejoined(l.path, cause)
		case errors.Is(err, ErrDeleted), errors.Is(err, ErrDeadline), errors.Is(err, errOtherParent):
			l.client.report.rejoined(l.path, err)
		default:
			return nil, err
		}
	}
}

// claimIn is Claim within one session: join, wait, grant, or abandon on any failure.
func (l *Line) claimIn(ctx context.Context, s *queueSession) (*Claim, error) {
	p, alone, err := l.join(ctx, s, -1)
	if err != nil {
		return nil, err
	}
	if !alone {
		err = l.await(ctx, s, p)
	}
	var c *Claim
	if err == nil {
		c, err = s.grant(ctx, p)
	}
	if err != nil {
		l.abandon(s, p)
		return nil, err
	}
	return c, nil
}

// tryIn is Try within one session.
//
// Of many that try for a free line at the same moment one joins, and the others create
// nothing: the nodes of losers that have yet to leave would keep each other, and
// everybody else, from a line that is free.
func (l *Line) tryIn(ctx context.Context, s *queueSession) (*Claim, error) {
	for {
		lst, err := s.list(ctx, l.path)
		if err != nil {
			return nil, err
		}
		front, found, err := l.front(ctx, s, slices.Clone(lst.members))
		switch {
		case err != nil:
			return nil, err
		case found:
			return nil, &BusyError{Path: l.path, Front: front}
		}
		version := int32(0) // of a parent that is made now
		if lst.parent != nil {
			version = lst.parent.Version
		}
		p, alone, err := l.join(ctx, s, version)
		if errors.Is(err, errContended) {
			if ctx.Err() != nil {
				return nil, &Error{Op: "join", Path: l.path, Err: ctx.Err()}
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if !alone {
			// A contender that does not write the parent, of another library for one,
			// may have come between the listing and the create.
			if err := l.inTheWay(ctx, s, p); err != nil {
				l.abandon(s, p)
				return nil, err
			}
		}
		c, err := s.grant(ctx, p)
		if err != nil {
			l.abandon(s, p)
		}
		return c, err
	}
}

// inTheWay is a *BusyError if somebody is ahead of the place.
func (l *Line) inTheWay(ctx context.Context, s *queueSession, p *place) error {
	for {
		ahead, found, err := l.ahead(ctx, s, p)
		if err != nil || !found {
			return err
		}
		front, err := l.read(ctx, s, ahead.name)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return err
		}
		return &BusyError{Path: l.path, Front: front}
	}
}
