// SPDX-License-Identifier: Apache-2.0

// Package downgrade makes a writer's claim a reader's.
package downgrade

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/claim"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// errNotWrite is the error of a downgrade of a claim that no writer was granted.
var errNotWrite = errors.New("only a claim of mode Write can be downgraded")

// Claim makes a writer's claim a reader's, which has no moment at which another writer could
// be granted the claim. Readers directly behind it are granted theirs; writers wait for it as
// before. Token and Done stay the same. There is no way back: two readers that both wait to
// become the writer would wait for each other.
//
// Downgrade writes the claim's own node, with a read and a write. It returns nil if the claim is a
// reader's from now on, also if it was downgraded before, and ErrLost, with the cause, if the claim
// has ended. After ErrUncertain, ctx ended before it was known whether the write was carried out:
// the claim is held, but other readers may be too. After any other error, the claim is as before.
// A reader's claim, and an exclusive one of another recipe, is refused.
//
// Curator's InterProcessReadWriteLock does not know a node that was downgraded: its readers wait
// for the release.
func Claim(ctx context.Context, c *recipes.Claim) error {
	h := claim.Of(c)
	fail := func(err error) error { return &recipes.Error{Op: "downgrade", Path: c.Path(), Err: err} }
	switch {
	case ctx == nil:
		return fail(sentinel.ErrNilContext)
	case h.Mode() != protocol.Write:
		return fail(errNotWrite)
	}
	sent := false
	for {
		if err := c.Err(); err != nil {
			return err
		}
		done, err := downgrade(ctx, h, &sent)
		switch {
		case err == nil && done:
			h.MarkShared()
			return c.Err()
		case err == nil, session.Retryable(err) && ctx.Err() == nil:
			continue
		}
		if ended := c.Err(); ended != nil {
			return ended
		}
		if sent && session.OutcomeOf(err) != session.Refused && !errors.Is(err, sentinel.ErrUncertain) {
			err = fmt.Errorf("%w: %w", sentinel.ErrUncertain, err)
		}
		return fail(sentinel.WithCtx(ctx, err))
	}
}

// downgrade is one attempt: it reads the node, and writes it unless the read shows that an earlier
// attempt did. done reports whether the node is downgraded. sent is set when a write may have been
// sent.
func downgrade(ctx context.Context, c *claim.Claim, sent *bool) (done bool, err error) {
	s, n := c.Session(), c.Node()
	data, stat, err := s.Get(ctx, n.Path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		s.MarkLost(n)
		return false, c.EndLost(sentinel.ErrDeleted)
	case err != nil:
		return false, err
	}
	known := s.Nodes.Recognise(n, stat.Version, data)
	switch {
	case known && stat.Version == 1:
		return true, nil
	case !known:
		if _, cause := s.MarkOverwritten(n); cause != nil {
			return false, c.EndLost(cause)
		}
		return false, nil
	}
	if data, err = protocol.Amend(data, "shared", true); err != nil {
		return false, err
	}
	s.Nodes.BeginRewrite(n, data)
	*sent = true
	_, err = session.CallAs(ctx, s.Session, session.Holder, func(conn *zk.Conn) (*zk.Stat, error) {
		return conn.Set(n.Path, data, 0)
	})
	switch {
	case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode):
		return false, nil // the next read shows why
	case err != nil:
		return false, err
	}
	s.Nodes.Recognise(n, 1, data)
	return true, nil
}
