// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// LineOptions are the options of a Line. The zero value of a field means its
// default.
type LineOptions struct {
	// Owner is the label that others see: at most 4096 bytes, DefaultOwner if
	// empty.
	Owner string

	// ReleaseTimeout bounds Release, and what a Claim that failed still does to
	// take its node away. The default is the session timeout: by then the node
	// is gone in any case. What is left is done in the background.
	ReleaseTimeout time.Duration

	_ struct{}
}

// A Line is the queue of contenders below one node: what locks and elections
// stand on. The first in line has the claim. Contenders are ephemeral sequential
// nodes, each watching only the one ahead of it.
//
// A Line is safe for concurrent use: each call of Claim or Try is a contender of
// its own.
type Line struct {
	client  *Client
	path    string // of the parent, namespace included
	scribe  *scribe
	release time.Duration // 0: the session timeout

	mu      sync.Mutex       // guards what follows
	known   bool             // the parent was read
	parent  int64            // its czxid
	ours    bool             // its data may be written
	highest int32            // the largest sequence number seen, -1 if none
	late    bool             // the sequence counter has stuck
	czxids  map[string]int64 // of late members, by name
}

// NewLine returns the line below path, an absolute path to which the client's
// namespace is added. It asks no server.
func NewLine(client *Client, path string, opts *LineOptions) (*Line, error) {
	fail := func(err error) (*Line, error) { return nil, &Error{Op: "new line", Err: err} }
	if client == nil {
		return fail(errors.New("client is nil"))
	}
	if err := checkPath(path); err != nil {
		return fail(err)
	}
	if opts == nil {
		opts = &LineOptions{}
	}
	if err := CheckOwner(opts.Owner); err != nil {
		return fail(err)
	}
	if opts.ReleaseTimeout < 0 {
		return fail(fmt.Errorf("release timeout %v is negative", opts.ReleaseTimeout))
	}
	l := &Line{
		client:  client,
		path:    client.settings.namespace + path,
		release: opts.ReleaseTimeout,
		highest: -1,
	}
	owner := opts.Owner
	if owner == "" {
		owner = DefaultOwner()
	}
	var err error
	if l.scribe, err = newScribe(owner, hostname()); err != nil {
		return fail(err)
	}
	return l, nil
}

// Path is the path of the line's parent node, namespace included.
func (l *Line) Path() string { return l.path }

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
			l.client.report.granted(c, time.Since(began))
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

// claimIn is Claim within one session.
func (l *Line) claimIn(ctx context.Context, s *queueSession) (*Claim, error) {
	p, alone, err := l.join(ctx, s, -1)
	if err != nil {
		return nil, err
	}
	if !alone {
		err = l.await(ctx, s, p)
	}
	if err == nil {
		var c *Claim
		if c, err = s.grant(ctx, p); err == nil {
			return c, nil
		}
	}
	l.abandon(s, p)
	return nil, err
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

// Release ends a claim of this line, and deletes its node. The claim's Done is
// closed first. It works when ctx is done already, for ctx bounds nothing here
// but carries values: the bound is the release timeout.
//
// It returns nil if the claim was held until then and the node is gone, or went
// with its session, which has expired; ErrLost, with the cause, if the claim had
// ended before, and then nothing of others is touched; ErrUncertain if the node
// could not be deleted in time, or what a server refused, and then the deletion
// goes on in the background, or, if the client was closed or the session given up
// meanwhile, is left to the end of the session. Called again, it returns the first
// result.
//
// After ErrDeadline it says that the work has stopped: the node, which is kept for
// T/4 otherwise, is then deleted as soon as a server serves the session.
func (l *Line) Release(ctx context.Context, c *Claim) error {
	if ctx == nil {
		return &Error{Op: "release", Path: c.Path(), Err: errNilContext}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.releaseTimeout(c.session))
	defer cancel()
	return c.giveUp(ctx)
}

func (l *Line) releaseTimeout(s *queueSession) time.Duration {
	if l.release > 0 {
		return l.release
	}
	return s.Timeout()
}

// abandon deletes the place's node, and waits for that while a server serves the
// session, for the release timeout at most.
func (l *Line) abandon(s *queueSession, p *place) { s.Discard(p.Node, l.releaseTimeout(s)) }
