// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// MarkLost ends what was granted on the node, which a server reports as missing. It returns
// false if the node was released in the meantime: then its absence proves nothing.
//
// A second node excludes other contenders in the meantime: like an overwritten node, it is kept until the holder's work has had time to
// stop.
func (d *deletions) MarkLost(n *nodes.Node) bool {
	ended := d.DeleteSoon
	if _, found := d.Nodes.Second(n); found {
		ended = d.DeleteLater
	}
	return d.markLost(n, sentinel.ErrDeleted, ended)
}

// MarkOverwritten is MarkLost for a node that a server reports as overwritten. It reads the
// node for the reason, which is ErrDeleted unless the data has another one, and takes T/8 at
// most. The node itself excludes other contenders in the meantime.
//
// cause is nil if the session itself has written the node, or if that is possible and the read
// failed: the node is not lost then, and a check at its Version shows more.
func (d *deletions) MarkOverwritten(n *nodes.Node) (was bool, cause error) {
	c, err := d.readOwn(n)
	if err != nil && d.Nodes.MayBeRewritten(n) && OutcomeOf(err) != Refused {
		return false, nil
	}
	return d.markRead(n, c, err)
}

// An ownRead is what a read of the session's own node returned.
type ownRead struct {
	content
	known int32 // the node's version, as far as the session knew when it sent the read
}

// readOwn reads the session's own node, in T/8 at most.
func (d *deletions) readOwn(n *nodes.Node) (ownRead, error) {
	ctx, cancel := context.WithTimeout(d.ctx, d.Timeout()/8)
	defer cancel()
	known := n.Version()
	c, err := RetryAs(ctx, d, Holder, "read", n.Path, getting(n.Path))
	return ownRead{c, known}, err
}

// markRead is MarkOverwritten after the read, which returned c, or failed. The session may have written the node since.
func (d *deletions) markRead(n *nodes.Node, c ownRead, err error) (was bool, cause error) {
	cause = sentinel.ErrDeleted
	if err == nil {
		if !d.isOwn(c.stat) {
			return d.markReplaced(n), cause
		}
		if c.stat.Version == c.known || d.Nodes.Recognise(n, c.stat.Version, c.data) {
			return false, nil
		}
		if revoked := d.config.Revoked(c.data); revoked != nil {
			cause = revoked
		}
	}
	// The node still exists: it is kept until the holder's work has had time to stop.
	return d.markLost(n, cause, d.DeleteLater), cause
}

// markLost ends what was granted on the node. If something was, ended deletes the node, also if another goroutine has ended the grant
// in the meantime: its holder's work needs the time as well.
func (d *deletions) markLost(n *nodes.Node, cause error, ended func(*nodes.Node)) bool {
	was, first, granted := d.Nodes.Lose(n)
	if !first {
		return was
	}
	remove := d.DeleteSoon
	if _, found := d.Nodes.Second(n); found {
		remove = ended // something was granted, perhaps until a moment ago
	}
	if granted != nil {
		remove = ended
		end(granted, cause)
	}
	remove(n)
	n.CloseLost()
	return true
}

// end ends a grant, and reports that.
func end(granted nodes.Ender, cause error) {
	if report := granted.End(cause); report != nil {
		report()
	}
}

// isOwn reports whether an ephemeral node with that Stat is of this session.
func (d *deletions) isOwn(stat *zk.Stat) bool { return stat.EphemeralOwner == d.link.ID() }

// markReplaced is markLost for a node at whose path a server shows one of another client: the ensemble was restored, and has given the
// number again. The session, which outlived that, deletes nothing at the path.
func (d *deletions) markReplaced(n *nodes.Node) bool {
	was, first, granted := d.Nodes.Lose(n)
	if !first {
		return was
	}
	if granted != nil {
		end(granted, sentinel.ErrDeleted)
	}
	d.Nodes.MarkGone(n)
	n.CloseLost()
	return true
}

// WatchOwn watches the session's own node. If a server shows a node of another client at its path, the node is lost, and the error
// wraps ErrDeleted.
func (d *deletions) WatchOwn(ctx context.Context, n *nodes.Node) (*Watch, error) {
	w, err := d.Watch(ctx, n.Path, WatchNode)
	if err == nil && !d.isOwn(w.stat) {
		d.markReplaced(n)
		return nil, d.Fail("watch", n.Path, sentinel.ErrDeleted)
	}
	return w, err
}
