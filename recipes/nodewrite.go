// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
)

// These methods write a Node without a claim: any client can write it. They are for nodes whose writers need not
// exclude each other, such as a barrier. They continue in the client's next session when one ends.

// Create creates the node with that data, with missing nodes above it as container nodes, unless it exists: then it changes
// nothing. A node that it creates is persistent.
//
// A create that was not answered is repeated. If another client deletes the node in between, the node then exists again. After
// ErrUncertain, ctx ended before an answer came.
func (n *Node) Create(ctx context.Context, data []byte) error { return n.CreateWithACL(ctx, data, nil) }

// CreateWithACL is Create for a node with that ACL, or the client's if it is empty.
func (n *Node) CreateWithACL(ctx context.Context, data []byte, acl []zk.ACL) error {
	if len(acl) == 0 {
		acl = n.client.ACL()
	}
	if err := zkpath.CheckData(n.path, data); err != nil {
		return &Error{Op: "create", Path: n.path, Err: err}
	}
	return n.write(ctx, "create", func(s *client.Session, w *nodeWrite) error {
		for {
			err := w.send(s, func(conn *zk.Conn) error {
				_, err := conn.Create(n.path, data, 0, acl)
				return err
			})
			switch {
			case errors.Is(err, zk.ErrNodeExists):
				return nil
			case errors.Is(err, zk.ErrNoNode) && zkpath.Parent(n.path) != "/":
				if err := s.CreateParents(ctx, zkpath.Parent(n.path), nil); err != nil {
					return err
				}
			default:
				return err
			}
		}
	})
}

// Replace writes the node, if it has that version. Its error wraps zk.ErrBadVersion if it has another one, which can be the
// result of this call: a write that was not answered is repeated. After ErrUncertain, ctx ended before an answer came.
func (n *Node) Replace(ctx context.Context, data []byte, version int32) error {
	if err := zkpath.CheckData(n.path, data); err != nil {
		return &Error{Op: "write", Path: n.path, Err: err}
	}
	return n.write(ctx, "write", func(s *client.Session, w *nodeWrite) error {
		return w.send(s, func(conn *zk.Conn) error {
			_, err := conn.Set(n.path, data, version)
			return err
		})
	})
}

// Delete deletes the node, if it exists. A delete that was not answered is repeated only while the same node exists: one
// that another client has created in between remains. After ErrUncertain, ctx ended before an answer came.
func (n *Node) Delete(ctx context.Context) error {
	found := int64(0) // czxid of the node that is to be deleted
	return n.write(ctx, "delete", func(s *client.Session, w *nodeWrite) error {
		stat, err := n.latest(ctx, s)
		if err != nil || stat == nil || found != 0 && stat.Czxid != found {
			return err
		}
		found = stat.Czxid
		err = w.send(s, func(conn *zk.Conn) error { return conn.Delete(n.path, -1) })
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return err
	})
}

// AwaitDeleted waits until the node does not exist, and returns immediately if it does not. It also returns if the node was
// deleted and has been created again.
//
// It returns nil only if the node was missing at some instant after the call began, in ZooKeeper's commit order: a server
// that lags behind, or a leader that was deposed, decides nothing. It can miss a deletion that is followed by a create within its
// first two round trips, before its watch is set. From then on, in any session, it misses none.
func (n *Node) AwaitDeleted(ctx context.Context) error {
	found := int64(0) // czxid of the node that the wait is for
	return n.read(ctx, func(s *client.Session) error {
		if exists, err := n.exists(ctx, s); err != nil || !exists {
			return err
		}
		for {
			w, err := s.Watch(ctx, n.path, session.WatchNode)
			if errors.Is(err, zk.ErrNoNode) {
				return nil
			}
			if err != nil {
				return err
			}
			_, stat, _ := w.Content()
			if found != 0 && stat.Czxid != found {
				return nil
			}
			found = stat.Czxid
			select {
			case <-w.Fired():
			case <-ctx.Done():
				return &Error{Op: "wait", Path: n.path, Err: ctx.Err()}
			}
			switch over := s.Ended(); {
			case over != nil:
				return &Error{Op: "wait", Path: n.path, Err: over}
			case w.Deleted():
				return nil
			}
		}
	})
}

// exists reports whether a quorum has the node. Reads of the session that follow are not older than that.
func (n *Node) exists(ctx context.Context, s *client.Session) (bool, error) {
	_, err := session.Retry(ctx, s.Session, "check", n.path, func(conn *zk.Conn) ([]zk.MultiResponse, error) {
		return conn.Multi(&zk.CheckVersionRequest{Path: n.path, Version: -1})
	})
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	return err == nil, err
}

// latest returns the Stat of the node at some instant after the call began, nil if it was missing.
func (n *Node) latest(ctx context.Context, s *client.Session) (*zk.Stat, error) {
	if exists, err := n.exists(ctx, s); err != nil || !exists {
		return nil, err
	}
	_, stat, err := s.Get(ctx, n.path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return stat, err
}

// A nodeWrite is a write that is repeated until a server has answered it.
type nodeWrite struct {
	ctx        context.Context
	unanswered bool // it was sent without an answer
}

// send sends the write once. What else an attempt requests changes nothing.
func (w *nodeWrite) send(s *client.Session, request func(*zk.Conn) error) error {
	_, err := session.Call(w.ctx, s.Session, func(conn *zk.Conn) (struct{}, error) { return struct{}{}, request(conn) })
	w.unanswered = w.unanswered || session.OutcomeOf(err) == session.Unknown
	return err
}

// write repeats a write until a server has answered it, in one session after the other.
func (n *Node) write(ctx context.Context, op string, attempt func(*client.Session, *nodeWrite) error) error {
	fail := func(err error) error { return &Error{Op: op, Path: n.path, Err: err} }
	if ctx == nil {
		return fail(sentinel.ErrNilContext)
	}
	w := &nodeWrite{ctx: ctx}
	for ctx.Err() == nil {
		s, err := n.client.Session(ctx)
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
func (w *nodeWrite) certainty(err error) error {
	if w.unanswered && !errors.Is(err, sentinel.ErrUncertain) {
		return fmt.Errorf("%w: %w", sentinel.ErrUncertain, err)
	}
	return err
}
