// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"

	"github.com/go-zookeeper/zk"
)

// MarkLost ends what was granted on the node, which a server reports as missing. It returns
// false if the node was released in the meantime: then its absence proves nothing.
func (s *Session) MarkLost(n *Node) bool { return s.markLost(n, ErrDeleted, s.DeleteSoon) }

// MarkOverwritten is MarkLost for a node that a server reports as overwritten. It reads the
// node for the reason, which is ErrDeleted unless the data has another one, and takes T/8 at
// most. The node itself excludes other contenders in the meantime.
func (s *Session) MarkOverwritten(n *Node) (was bool, cause error) {
	cause = ErrDeleted
	ctx, cancel := context.WithTimeout(s.ctx, s.Timeout()/8)
	defer cancel()
	data, err := RetryAs(ctx, s, Holder, "read", n.Path, func(conn *zk.Conn) ([]byte, error) {
		data, _, err := conn.Get(n.Path)
		return data, err
	})
	if err == nil {
		if revoked := s.config.Revoked(data); revoked != nil {
			cause = revoked
		}
	}
	// The node still exists: it is kept until the holder's work has had time to stop.
	return s.markLost(n, cause, s.DeleteLater), cause
}

// markLost ends what was granted on the node. If that was held until now, ended deletes the node.
func (s *Session) markLost(n *Node, cause error, ended func(*Node)) bool {
	was, first, granted := s.nodes.lose(n)
	if !first {
		return was
	}
	remove := s.DeleteSoon
	if granted != nil {
		if report := granted.End(cause); report != nil {
			remove = ended
			report()
		}
	}
	remove(n)
	close(n.lost)
	return true
}
