// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// IsQueue reports whether the node is the queue of a lock or an election. data and stat
// are the results of a read. A queue holds this library's mark, or has a contender of
// any library below it. IsQueue asks a server only if the node has children.
func (n *Node) IsQueue(ctx context.Context, data []byte, stat *zk.Stat) (bool, error) {
	switch {
	case stat == nil:
		return false, nil
	case protocol.IsMarked(data):
		return true, nil
	case stat.NumChildren == 0:
		return false, nil
	}
	contended := false
	err := client.Of(n).WithSession(ctx, n.Path(), func(s *client.Session) error {
		children, _, err := s.Children(ctx, n.Path())
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		contended = len(protocol.ParseMembers(children)) > 0
		return err
	})
	return contended, err
}

// RefuseQueue returns ErrQueue if the node is a queue: see IsQueue. After a call that has found another node, it sends no request.
// Until then callers share one read, which leaves a watch for the node.
func (n *Node) RefuseQueue(ctx context.Context) error {
	if n.usable.Load() {
		return nil
	}
	var data []byte
	var stat *zk.Stat
	err := n.read(ctx, func(s *client.Session) error {
		w, err := s.Watch(ctx, n.Path(), session.WatchNode)
		if err == nil {
			data, stat, _ = w.Content()
		}
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	var isQueue bool
	if err == nil {
		isQueue, err = n.IsQueue(ctx, data, stat)
	}
	switch {
	case err != nil:
		return err
	case isQueue:
		return &recipes.Error{Op: "use", Path: n.Path(), Err: sentinel.ErrQueue}
	}
	n.usable.Store(true)
	return nil
}
