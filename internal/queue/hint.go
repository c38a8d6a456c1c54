// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/claim"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// removal returns how the node of the place is deleted when its claim, which holds the queue as a whole, is released: in one
// transaction with a hint that this contender was the first, and is gone. The next contender then needs no listing.
//
// A waiter that gives up, and the end of a shared claim, prove nothing about the contenders ahead, and give no hint. Nor does a claim
// whose contender has not waited: as a rule, no other contender waits for it either, and the first that does lists one contender ahead.
func (q *Queue) removal(p *Place) claim.Removal {
	hint := p.Member.Czxid
	return func(ctx context.Context, s *session.Session, n *nodes.Node) (existed bool, err error) {
		var write *zk.SetDataRequest
		if q.isWritable(p.Tag) {
			write = &zk.SetDataRequest{Path: q.path, Data: protocol.ParentData(hint), Version: -1}
		}
		_, detached := s.Served()
		existed, written, refused, err := s.DeleteAnd(ctx, n, session.Holder, write)
		switch {
		case errors.Is(refused, zk.ErrNoAuth):
			q.markReadOnly()
		case written != nil:
			q.recordHint(s.ID(), hint)
			q.witnesses.guess(p, written)
			if number := protocol.LastNumber(written.Cversion, written.NumChildren); number < protocol.OverflowSequence {
				q.recordNumber(detached, written.Czxid, number, false) // a search for the next join begins behind it
			}
		}
		return existed, err
	}
}

// isWritable reports whether the data of the parent may be written, in that life of it.
func (q *Queue) isWritable(parent int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.known && q.parent == parent && q.writable
}

// recordHint records a hint that a session has written, so that its next join repeats it instead of erasing it. Before the next session,
// the ensemble can have been restored: another node can have that czxid.
func (q *Queue) recordHint(session, czxid int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.session != session {
		q.session, q.hint = session, 0
	}
	q.hint = max(q.hint, czxid)
}
