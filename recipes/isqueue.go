// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes/internal/queue"
)

// IsQueue reports whether the node is the queue of a lock or an election. data and stat
// are the results of a read. A queue holds this library's mark, or has a contender of
// any library below it. IsQueue asks a server only if the node has children.
func (n *Node) IsQueue(ctx context.Context, data []byte, stat *zk.Stat) (bool, error) {
	switch {
	case stat == nil:
		return false, nil
	case string(data) == parentMark:
		return true, nil
	case stat.NumChildren == 0:
		return false, nil
	}
	contended := false
	err := n.client.withSession(ctx, n.path, func(s *queueSession) error {
		children, _, err := s.Children(ctx, n.path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		contended = len(queue.ParseMembers(children)) > 0
		return err
	})
	return contended, err
}

// IsContender reports whether a node of that name, below a queue's path, is a contender of this
// or another library.
func IsContender(name string) bool {
	_, ok := queue.ParseMember(name)
	return ok
}
