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

// GetAtMost is Get for a caller that needs the answer less than the client needs its connection: after some connections that
// ended in its place, it returns an error.
func (s *sender) GetAtMost(ctx context.Context, path string) (data []byte, stat *zk.Stat, err error) {
	c, err := Retry(ctx, s, "read", path, atMost(func(conn *zk.Conn) (c content, err error) {
		c.data, c.stat, err = conn.Get(path)
		return c, err
	}))
	return c.data, c.stat, err
}

// ChildrenAtMost is Children for such a caller.
func (s *sender) ChildrenAtMost(ctx context.Context, path string) (children []string, stat *zk.Stat, err error) {
	c, err := Retry(ctx, s, "list", path, atMost(func(conn *zk.Conn) (c content, err error) {
		c.children, c.stat, err = conn.Children(path)
		return c, err
	}))
	return c.children, c.stat, err
}
