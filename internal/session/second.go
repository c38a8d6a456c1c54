// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// WatchSecond watches the second node of a node, which was created at czxid. If another client deletes it, the first is lost, and
// what was granted on it ends. WatchSecond does not wait, and the watch ends with the first node.
//
// The session may still have a watch of an earlier node of that name, as it sets its watches again some time after it has a new
// connection. So a read confirms what a watch shows: it is sent after the creation, and answered in order.
func (d *deletions) WatchSecond(n *nodes.Node, second string, czxid int64) {
	// An error means that the session is over.
	_ = d.spawn(func() {
		for {
			w, err := d.Watch(d.ctx, second, WatchNode)
			if errors.Is(err, zk.ErrNoNode) || err == nil && w.stat.Czxid != czxid {
				var stat *zk.Stat
				_, stat, err = d.Get(d.ctx, second)
				if errors.Is(err, zk.ErrNoNode) || err == nil && stat.Czxid != czxid {
					d.loseSecond(n)
					return
				}
			}
			if err != nil {
				d.Nodes.SecondWatched(n, n.Lost())
				return // the session is over, or the server refuses the read: release finds the node missing
			}
			d.Nodes.SecondWatched(n, w.Fired())
			select {
			case <-w.Fired():
				if d.Nodes.IsReleased(n) {
					return // the release deletes it
				}
			case <-n.Gone():
				return
			case <-n.Lost():
				return
			case <-d.ctx.Done():
				return
			}
		}
	})
}

// loseSecond ends what was granted on the node, unless it has ended. The second node is missing, or belongs to
// another session: it is not deleted with the first, which is kept until the holder's work has had time to stop.
func (d *deletions) loseSecond(n *nodes.Node) {
	d.Nodes.ForgetSecond(n)
	d.markLost(n, sentinel.ErrDeleted, d.DeleteLater)
}

// deleteBoth deletes the node and its second one in one transaction, which the server carries out only while the first exists. So
// it never deletes the second node of another session, however late it arrives: that is created after the first was deleted.
//
// If it is not known whether the second node was created, only a first node that was not rewritten is deleted.
func (d *deletions) deleteBoth(ctx context.Context, n *nodes.Node, second nodes.Second, as Role) error {
	first := &zk.DeleteRequest{Path: n.Path, Version: 0}
	ops := []any{first}
	if second.Created {
		first.Version = -1
		ops = append(ops, &zk.DeleteRequest{Path: second.Path, Version: -1})
	}
	results, err := d.write(ctx, n, as, ops)
	if err == nil || len(results) == 0 {
		return err
	}
	switch {
	case errors.Is(results[0].Error, zk.ErrNoNode):
		// Another client has deleted the first node, or an earlier attempt both.
		if failed := d.deleteOwnSecond(ctx, n, second, as); failed != nil {
			return failed
		}
		return err
	case errors.Is(results[0].Error, zk.ErrBadVersion):
		owned, failed := d.ownsSecond(ctx, second)
		if failed != nil {
			return failed
		}
		if owned {
			d.Nodes.SecondCreated(n)
		} else {
			d.Nodes.ForgetSecond(n)
		}
	case second.Created && results[0].Error == nil && errors.Is(results[1].Error, zk.ErrNoNode):
		d.Nodes.ForgetSecond(n) // another client has deleted it
	case second.Created && results[0].Error == nil:
		return fmt.Errorf("delete %s: %w", second.Path, err)
	default:
		return err
	}
	_, err = d.deleteOnce(ctx, n, as, nil)
	return err
}

// deleteOwnSecond deletes the second node of one that does not exist any more, if it belongs to this session. The answer that the first
// does not exist is at least as new as each deletion that was sent before, and so is the read.
func (d *deletions) deleteOwnSecond(ctx context.Context, n *nodes.Node, second nodes.Second, as Role) error {
	owned, err := d.ownsSecond(ctx, second)
	if err != nil || !owned {
		return err
	}
	if _, err = d.write(ctx, n, as, []any{&zk.DeleteRequest{Path: second.Path, Version: -1}}); errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// ownsSecond reports whether the second node exists, and was created with the node's data.
func (d *deletions) ownsSecond(ctx context.Context, second nodes.Second) (bool, error) {
	c, err := CallAs(ctx, d, Holder, getting(second.Path))
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	return err == nil && c.stat.EphemeralOwner == d.link.ID() && bytes.Equal(c.data, second.Data), err
}
