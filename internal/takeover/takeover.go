// SPDX-License-Identifier: Apache-2.0

// Package takeover makes a contender that was granted a claim pass a former holder that did not release.
package takeover

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/claim"
	"github.com/lockkeeper/lockkeeper/internal/ownerlabel"
	"github.com/lockkeeper/lockkeeper/internal/record"
	"github.com/lockkeeper/lockkeeper/internal/report"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// breadcrumbSuffix is what the name of the node with the breadcrumb has after the name of the queue.
const breadcrumbSuffix = "-breadcrumb"

// A Takeover is what the contenders of a queue do between their grant and their return: they pass a
// former holder that did not release, and leave their own breadcrumb.
type Takeover struct {
	node  *record.Node[breadcrumb] // with the breadcrumb
	delay time.Duration
	fence func(ctx context.Context, former recipes.FormerHolder) error
	mine  breadcrumb // without Token and Time

	mu     sync.Mutex    // guards what follows
	former fencing.Token // the newest former holder that was found
	found  time.Time     // when it was
}

// New returns the takeover of the queue at path by contenders with that label.
func New(
	of *recipes.Client, path, owner string, delay time.Duration, fence func(ctx context.Context, former recipes.FormerHolder) error,
) (*Takeover, error) {
	node, err := record.New(of, path+breadcrumbSuffix, breadcrumbs)
	if err != nil {
		return nil, err
	}
	return &Takeover{
		node: node, delay: delay, fence: fence,
		mine: breadcrumb{Owner: owner, Host: ownerlabel.Host(), PID: os.Getpid()},
	}, nil
}

// Run takes the claim over. After an error, or a panic of the fence function, the claim has ended,
// its node exists, and the breadcrumb of the former holder stays.
func (t *Takeover) Run(ctx context.Context, c *recipes.Claim) error {
	h := claim.Of(c)
	return h.TakeOver(func() (claim.Removal, error) {
		claimed, cancel := c.Context(ctx)
		defer cancel()
		version, err := t.take(claimed, c)
		if err == nil {
			err = claim.AwaitProof(claimed, h.Session(), h.Node(), nil) // the last one may be older than the delay
		}
		return (&leftBreadcrumb{t.node.Path(), version}).deleteWith, err
	})
}

// take writes the claim's breadcrumb, after it has passed the holder that the former one names. It
// returns the version of the node. The write is carried out only if the node has not changed since
// it was read, so that the read may be out of date.
func (t *Takeover) take(ctx context.Context, c *recipes.Claim) (version int32, err error) {
	attempt := taking{mine: t.mine}
	attempt.mine.Token, attempt.mine.Time = c.Token(), time.Now().UTC()
	for {
		version, err := t.node.Update(ctx, c, attempt.next)
		var left *recipes.UnreleasedError
		if !errors.As(err, &left) {
			return version, err
		}
		// Without that, the breadcrumb could be the present holder's: the claim's node can have
		// been deleted before the read.
		if err := c.Check(ctx); err != nil {
			return 0, &recipes.Error{Op: "check", Path: claim.Of(c).Node().Parent, Err: &recipes.UnreleasedError{Former: left.Former, Err: err}}
		}
		if err := t.pass(ctx, c, left.Former); err != nil {
			return 0, err
		}
		attempt.passed = left.Former.Token
	}
}

// pass waits for the lock-delay, and then calls the fence function.
func (t *Takeover) pass(ctx context.Context, c *recipes.Claim, former recipes.FormerHolder) error {
	h := claim.Of(c)
	fail := func(op string, err error) error {
		return &recipes.Error{Op: op, Path: h.Node().Parent, Err: &recipes.UnreleasedError{Former: former, Err: err}}
	}
	left := t.delay - time.Since(t.foundAt(former.Token))
	h.Session().Client().Report().Unreleased(h.Node().Parent, report.Former(former), max(0, left))
	if left > 0 {
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return fail("wait for the lock-delay", ctx.Err())
		}
	}
	if t.fence == nil {
		return nil
	}
	if err := t.fence(ctx, former); err != nil {
		return fail("fence", err)
	}
	return nil
}

// foundAt returns when a claim of this queue first found that the holder has not released. At that
// moment the holder's node was gone. Later claims go on counting from then, so that calls whose
// contexts are shorter than the delay succeed some day.
func (t *Takeover) foundAt(former fencing.Token) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.former != former {
		t.former, t.found = former, time.Now()
	}
	return t.found
}
