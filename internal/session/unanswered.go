// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// maxUnanswered is how many connections may end in turn while a read is under way that is given up then. One connection ends
// when a server stops, another one when the client leaves a server that is slow.
const maxUnanswered = 4

// errUnanswered reports that no connection brought an answer.
var errUnanswered = errors.New("4 connections in turn ended in place of an answer: it may be too large for the way to the client")

// errSilent reports that a search was not answered in T, in which its connection ended.
var errSilent = errors.New("a connection ended without an answer: it may be too large for the way to the client")

// atMost returns a request that fails for good once maxUnanswered connections in turn have ended while it was under way. Each
// of these ended all other requests of the client as well.
func atMost[R any](request func(*zk.Conn) (R, error)) func(*zk.Conn) (R, error) {
	ended := 0
	return func(conn *zk.Conn) (R, error) {
		value, err := request(conn)
		if OutcomeOf(err) == Unknown && Retryable(err) {
			if ended++; ended == maxUnanswered {
				err = errUnanswered
			}
		}
		return value, err
	}
}

// errUnasked reports that a connection brought no answer, and that no caller waits for one.
var errUnasked = errors.New("connection ended in place of an answer for which no caller waits")

// whileAsked returns a request that fails for good once a connection has ended while it was under way, and no caller waits for the
// answer: it may be one that never comes, and each repetition could end all other requests of the client.
func whileAsked[R any](isAsked func() bool, request func(*zk.Conn) (R, error)) func(*zk.Conn) (R, error) {
	return func(conn *zk.Conn) (R, error) {
		value, err := request(conn)
		if OutcomeOf(err) == Unknown && Retryable(err) && !isAsked() {
			err = errUnasked
		}
		return value, err
	}
}

// isAsked returns a function that reports whether asked is not done. It also returns true at the end of the session, with which asked ends:
// the request then fails with the session's error.
func (s *sender) isAsked(asked context.Context) func() bool {
	return func() bool { return asked.Err() == nil || s.Ended() != nil }
}

// GetWhileAsked is Get in the session's context for a caller of that role, and is not repeated once asked is done.
func (s *sender) GetWhileAsked(asked context.Context, as Role, path string) (data []byte, stat *zk.Stat, err error) {
	c, err := RetryAs(s.ctx, s, as, "read", path, whileAsked(s.isAsked(asked), getting(path)))
	return c.data, c.stat, err
}

// ChildrenWhileAsked is Children for such a caller.
func (s *sender) ChildrenWhileAsked(asked context.Context, path string) (children []string, stat *zk.Stat, err error) {
	c, err := Retry(s.ctx, s, "list", path, whileAsked(s.isAsked(asked), listing(path)))
	return c.children, c.stat, err
}

// GetAtMost is Get for a caller that needs the answer less than the client needs its connection: after some connections that
// ended in its place, it returns an error.
func (s *sender) GetAtMost(ctx context.Context, path string) (data []byte, stat *zk.Stat, err error) {
	c, err := Retry(ctx, s, "read", path, atMost(getting(path)))
	return c.data, c.stat, err
}

// ChildrenAtMost is Children for such a caller.
func (s *sender) ChildrenAtMost(ctx context.Context, path string) (children []string, stat *zk.Stat, err error) {
	c, err := Retry(ctx, s, "list", path, atMost(listing(path)))
	return c.children, c.stat, err
}
