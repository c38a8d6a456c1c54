// SPDX-License-Identifier: Apache-2.0

// Package queue is the queue of contenders below one node: join, wait, grant, or abandon on any failure.
package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/claim"
	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/ownerlabel"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/takeover"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Options are the options of a Queue. The zero value of a field means its
// default.
type Options struct {
	// Owner is the label that other clients see: at most 4096 bytes, the
	// client's if empty.
	Owner string

	// ReleaseTimeout bounds Release, and the time in which a failed Claim deletes
	// its node before it returns. The default is the session timeout: by then the
	// node is gone in any case. The rest is done in the background.
	ReleaseTimeout time.Duration

	// LockDelay is how long Claim and Try wait, after they were granted a claim whose
	// former holder did not release it, before they return the claim. Requests of that
	// holder that are still on their way arrive in this time. The default is not to wait.
	//
	// Each holder leaves a breadcrumb in the node <path>-breadcrumb, which its release
	// clears. The next holder that finds one waits from that moment, on its own monotonic
	// clock, while its session proves that it lives. If its ctx ends before the delay, or
	// the claim is lost, it leaves the queue; a later claim of the same Queue goes on
	// counting from the same moment.
	//
	// A holder that had lost its claim before it called Release counts as one that did not
	// release; one whose Release returned ErrUncertain may. All contenders of the path must
	// set the same of LockDelay and Fence, one or both. A contender that sets none of them
	// does not wait and leaves no breadcrumb, so its own crash goes unnoticed. Only exclusive
	// claims are possible.
	LockDelay time.Duration

	// Fence, if not nil, is called before Claim or Try returns a claim whose former holder
	// did not release it, after LockDelay: it makes sure that the former holder does no
	// harm. Holders leave breadcrumbs as for LockDelay. ctx is done when the caller's is,
	// or when the claim is lost. Claim waits for the function to return.
	//
	// If it returns an error, or panics, the claim is released and the breadcrumb stays:
	// Claim returns the error, with the operation "fence", as an *UnreleasedError, and the
	// next contender calls Fence again. It may be called more than once for one former
	// holder, and by two processes at the same time if the first has lost the claim. It is
	// not called after holders whose successor has set LockDelay alone.
	Fence func(ctx context.Context, former recipes.FormerHolder) error

	_ struct{}
}

// A Queue is the queue of contenders below one node, on which locks and elections are
// built. The first contender has the claim, or all readers ahead of any other
// contender: see Mode. Contenders are ephemeral sequential nodes, each watching only
// one ahead of it.
//
// A Queue is safe for concurrent use: each call of Claim or Try is a separate
// contender.
type Queue struct {
	Client    *client.Client
	path      string // of the parent, namespace included
	encoder   *protocol.Encoder
	release   time.Duration // 0: the session timeout
	Host      string
	PID       int
	Takeover  *takeover.Takeover // nil: claims leave no breadcrumb
	witnesses witness            // of other clients

	mu         sync.Mutex      // guards what follows
	known      bool            // the parent was read
	parent     int64           // its czxid
	writable   bool            // its data may be written
	highest    int32           // the largest sequence number seen on one connection, -1 if none
	detached   <-chan struct{} // closed once that connection has ended; nil if there was none
	overflowed bool            // the sequence counter is stuck
	session    int64           // in which hint was recorded; 0 if none
	hint       int64           // the newest that the session has written, 0 if none
	nextSoon   time.Time       // when ListSoon may list again
}

// New returns the queue below path, an absolute path to which the client's
// namespace is added. It sends no request.
func New(of *recipes.Client, path string, opts *Options) (*Queue, error) {
	fail := func(err error) (*Queue, error) { return nil, &recipes.Error{Op: "new queue", Err: err} }
	if of == nil {
		return fail(errors.New("client is nil"))
	}
	if err := zkpath.Check(path); err != nil {
		return fail(err)
	}
	if opts == nil {
		opts = &Options{}
	}
	if err := ownerlabel.Check(opts.Owner); err != nil {
		return fail(err)
	}
	if opts.ReleaseTimeout < 0 {
		return fail(fmt.Errorf("release timeout %v is negative", opts.ReleaseTimeout))
	}
	if opts.LockDelay < 0 {
		return fail(fmt.Errorf("lock-delay %v is negative", opts.LockDelay))
	}
	c := client.Of(of)
	full, err := c.Place(path)
	if err != nil {
		return fail(err)
	}
	q := &Queue{
		Client:  c,
		path:    full,
		release: opts.ReleaseTimeout,
		Host:    ownerlabel.Host(),
		PID:     os.Getpid(),
		highest: -1,
	}
	owner := cmp.Or(opts.Owner, c.Owner())
	if opts.LockDelay != 0 || opts.Fence != nil {
		if q.Takeover, err = takeover.New(of, path, owner, opts.LockDelay, opts.Fence); err != nil {
			return fail(err)
		}
	}
	if q.encoder, err = protocol.NewEncoder(owner, q.Host, q.PID); err != nil {
		return fail(err)
	}
	return q, nil
}

// Path returns the path of the queue's parent node, namespace included.
func (q *Queue) Path() string { return q.path }

// Release ends a claim of this queue, and deletes its node. It closes the claim's
// Done first. It works even if ctx is done, as ctx only carries values: the bound
// is the release timeout.
//
// Release returns nil if the claim was held until then and the node is gone, also if
// it was deleted with its session, which has expired. It returns ErrLost, with the
// cause, if the claim had ended before; no node of another contender is touched. It
// returns ErrUncertain if the node could not be deleted in time, and a server's error
// if the server refused. The deletion then continues in the background. If the client
// was closed or the session abandoned meanwhile, the node is deleted when the session
// ends. A second call returns the first result.
//
// After ErrDeadline, Release declares that the work has stopped: the node, which is
// otherwise kept for T/4, is deleted as soon as a server serves the session. The nodes of an abandoned session are deleted
// together, when none is kept any more.
func (q *Queue) Release(ctx context.Context, c *recipes.Claim) error {
	if ctx == nil {
		return &recipes.Error{Op: "release", Path: c.Path(), Err: sentinel.ErrNilContext}
	}
	h := claim.Of(c)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), q.releaseTimeout(h.Session()))
	defer cancel()
	return h.Release(ctx)
}

// Abandon ends a claim under which no work has begun. It closes Done, and deletes the node as a
// failed Claim does: it waits for the deletion while a server serves the session, for the release
// timeout at most. The rest is done in the background.
func (q *Queue) Abandon(c *recipes.Claim) {
	h := claim.Of(c)
	h.Abandon(q.releaseTimeout(h.Session()))
}

func (q *Queue) releaseTimeout(s *client.Session) time.Duration {
	if q.release > 0 {
		return q.release
	}
	return s.Timeout()
}

// Discard deletes the place's node. It waits for the deletion while a server serves
// the session, for the release timeout at most.
func (q *Queue) Discard(s *client.Session, p *Place) {
	p.dropProof()
	s.Discard(p.Node, q.releaseTimeout(s))
}
