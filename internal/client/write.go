// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
)

// Read runs requests that change nothing: see WithSession. So its error is not ErrUncertain if ctx ends before an answer.
func (c *Client) Read(ctx context.Context, path string, requests func(*Session) error) error {
	err := c.WithSession(ctx, path, requests)
	if errors.Is(err, sentinel.ErrUncertain) && ctx.Err() != nil {
		return c.Fail("read", path, sentinel.WithCtx(ctx, ctx.Err()))
	}
	return err
}

// A Write is a write that is repeated until a server has answered it.
type Write struct {
	ctx        context.Context
	unanswered bool // it was sent without an answer
}

// Send sends the write once. What else an attempt requests changes nothing.
func (w *Write) Send(s *Session, request func(*zk.Conn) error) error {
	_, err := session.Call(w.ctx, s.Session, func(conn *zk.Conn) (struct{}, error) { return struct{}{}, request(conn) })
	w.unanswered = w.unanswered || session.OutcomeOf(err) == session.Unknown
	return err
}

// Write repeats a write of the node at path until a server has answered it, in one session after the other.
func (c *Client) Write(ctx context.Context, op, path string, attempt func(*Session, *Write) error) error {
	fail := func(err error) error { return c.Fail(op, path, err) }
	if ctx == nil {
		return fail(sentinel.ErrNilContext)
	}
	w := &Write{ctx: ctx}
	for ctx.Err() == nil {
		s, err := c.Session(ctx)
		if err == nil {
			err = attempt(s, w)
		}
		refused := session.OutcomeOf(err) == session.Refused && !errors.Is(err, zk.ErrSessionExpired)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil: // states the cause
		case s == nil, !refused && s.Ended() == nil && !session.Retryable(err):
			return fail(w.certainty(err))
		case refused:
			return fail(err)
		}
	}
	return fail(w.certainty(sentinel.WithCtx(ctx, ctx.Err())))
}

// certainty adds ErrUncertain to err if the write may have been carried out.
func (w *Write) certainty(err error) error {
	if w.unanswered && !errors.Is(err, sentinel.ErrUncertain) {
		return fmt.Errorf("%w: %w", sentinel.ErrUncertain, err)
	}
	return err
}

// Create creates the persistent node at path, with missing nodes above it, unless it exists.
func (c *Client) Create(ctx context.Context, path string, data []byte, acl []zk.ACL) error {
	if err := zkpath.CheckData(path, data); err != nil {
		return c.Fail("create", path, err)
	}
	return c.Write(ctx, "create", path, func(s *Session, w *Write) error {
		for {
			err := w.Send(s, func(conn *zk.Conn) error {
				_, err := conn.Create(path, data, 0, acl)
				return err
			})
			switch {
			case errors.Is(err, zk.ErrNodeExists):
				return nil
			case errors.Is(err, zk.ErrNoNode) && zkpath.Parent(path) != "/":
				if err := s.CreateParents(ctx, zkpath.Parent(path), nil); err != nil {
					return err
				}
			default:
				return err
			}
		}
	})
}
