// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
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
