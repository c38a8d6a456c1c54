// SPDX-License-Identifier: Apache-2.0

// Package node has nodes that any client can write, without a claim.
package node

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Node is a Node that any client can write, without a claim. It is for nodes whose writers need not exclude each other, such
// as a barrier. Writes continue in the client's next session when one ends.
type Node struct {
	*recipes.Node
	usable atomic.Bool // RefuseQueue has found that it is no queue
}

// New returns the node at path, as recipes.NewNode does.
func New(of *recipes.Client, path string) (*Node, error) {
	n, err := recipes.NewNode(of, path)
	if err != nil {
		return nil, err
	}
	return &Node{Node: n}, nil
}

// CreateWithACL is Create for a node with that ACL, or the client's if it is empty.
func (n *Node) CreateWithACL(ctx context.Context, data []byte, acl []zk.ACL) error {
	c := client.Of(n)
	if len(acl) == 0 {
		acl = c.ACL()
	}
	return c.Create(ctx, n.Path(), data, acl)
}

// read runs requests that change nothing.
func (n *Node) read(ctx context.Context, requests func(*client.Session) error) error {
	return client.Of(n).Read(ctx, n.Path(), requests)
}

// Replace writes the node, if it has that version. Its error wraps zk.ErrBadVersion if it has another one, which can be the
// result of this call: a write that was not answered is repeated. After ErrUncertain, ctx ended before an answer came.
func (n *Node) Replace(ctx context.Context, data []byte, version int32) error {
	if err := zkpath.CheckData(n.Path(), data); err != nil {
		return &recipes.Error{Op: "write", Path: n.Path(), Err: err}
	}
	return client.Of(n).Write(ctx, "write", n.Path(), func(s *client.Session, w *client.Write) error {
		return w.Send(s, func(conn *zk.Conn) error {
			_, err := conn.Set(n.Path(), data, version)
			return err
		})
	})
}

// Delete deletes the node, if it exists. A delete that was not answered is repeated only while the same node exists: one
// that another client has created in between remains. After ErrUncertain, ctx ended before an answer came.
func (n *Node) Delete(ctx context.Context) error {
	found := int64(0) // czxid of the node that is to be deleted
	return client.Of(n).Write(ctx, "delete", n.Path(), func(s *client.Session, w *client.Write) error {
		stat, err := n.latest(ctx, s)
		if err != nil || stat == nil || found != 0 && stat.Czxid != found {
			return err
		}
		found = stat.Czxid
		err = w.Send(s, func(conn *zk.Conn) error { return conn.Delete(n.Path(), -1) })
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		return err
	})
}

// DeleteParent deletes the node in one request, if it exists and has no children, unless the client's parents are containers, which servers
// delete. It is for a node that its users create again when they need it: a delete that was not answered is repeated, and the node can be
// another one by then.
func (n *Node) DeleteParent(ctx context.Context) error {
	if !client.Of(n).PersistentParents() {
		return nil
	}
	return client.Of(n).Write(ctx, "delete", n.Path(), func(s *client.Session, w *client.Write) error {
		return w.Send(s, func(conn *zk.Conn) error { return conn.Delete(n.Path(), -1) })
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
			w, err := s.Watch(ctx, n.Path(), session.WatchNode)
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
				return &recipes.Error{Op: "wait", Path: n.Path(), Err: ctx.Err()}
			}
			switch over := s.Ended(); {
			case over != nil:
				return &recipes.Error{Op: "wait", Path: n.Path(), Err: over}
			case w.Deleted():
				return nil
			}
		}
	})
}

// exists reports whether a quorum has the node. Reads of the session that follow are not older than that.
func (n *Node) exists(ctx context.Context, s *client.Session) (bool, error) {
	_, err := session.Retry(ctx, s.Session, "check", n.Path(), func(conn *zk.Conn) ([]zk.MultiResponse, error) {
		return conn.Multi(&zk.CheckVersionRequest{Path: n.Path(), Version: -1})
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
	_, stat, err := s.Get(ctx, n.Path())
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return stat, err
}

// Children returns the names of the nodes below this one, in no order, as the server that this
// client is connected to sees them. It returns none if the node is missing.
func (n *Node) Children(ctx context.Context) (names []string, err error) {
	err = n.read(ctx, func(s *client.Session) error {
		names, _, err = s.Children(ctx, n.Path())
		if errors.Is(err, zk.ErrNoNode) {
			names, err = nil, nil
		}
		return err
	})
	return names, err
}
