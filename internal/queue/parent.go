// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Learn returns the Queue's view of the parent. The first use of a path reads the parent,
// and creates it if it is missing.
func (q *Queue) Learn(ctx context.Context, s *client.Session) (parentView, error) {
	for {
		q.mu.Lock()
		v, known := parentView{q.parent, q.writable, q.overflowed, q.hint}, q.known
		if q.session != s.ID() {
			v.hint = 0
		}
		q.mu.Unlock()
		if known {
			return v, nil
		}
		parent, err := shared.Of(s).parents.Do(ctx, s.Session, q.path, struct{}{}, func(asked context.Context, _ []struct{}) (parent, error) { return readParent(asked, s, q.path) })
		if err != nil {
			if ctx.Err() != nil {
				err = &recipes.Error{Op: "read", Path: q.path, Err: ctx.Err()}
			}
			return parentView{}, err
		}
		q.mu.Lock()
		if !q.known || q.parent != parent.czxid {
			// Numbers begin anew in each life of the parent.
			q.parent, q.highest, q.overflowed, q.known = parent.czxid, -1, false, true
			q.writable = parent.writable
		}
		q.mu.Unlock()
	}
}

// readParent reads the node at path, and creates it if it is missing. The read is not repeated once asked is done.
func readParent(asked context.Context, s *client.Session, path string) (parent, error) {
	for {
		data, stat, err := s.GetWhileAsked(asked, session.Joining, path) // a wait begins with it
		switch {
		case errors.Is(err, zk.ErrNoNode):
			if err := s.CreateParents(s.Context(), path, protocol.ParentData(0)); err != nil {
				return parent{}, err
			}
		case err != nil:
			return parent{}, err
		default:
			return parent{stat.Czxid, len(data) == 0 || protocol.IsMarked(data)}, nil
		}
	}
}

// Relearn makes the next attempt read the parent again.
func (q *Queue) Relearn() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.known = false
}

// markReadOnly records that this client may not write the parent's data.
func (q *Queue) markReadOnly() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.writable = false
}

// markOverflowed records that numbers no longer make names unique.
func (q *Queue) markOverflowed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.overflowed = true
}

// recordNumber records the highest number given out in that life of the parent, as it was observed on a connection. overflowed reports
// whether numbers no longer give the order.
//
// Between two connections, the ensemble can have been restored: the parent has the same czxid, and gives numbers again that were given
// before. detached was returned by Served before the request, and is closed once the connection has ended.
func (q *Queue) recordNumber(detached <-chan struct{}, parent int64, highest int32, overflowed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if parent != q.parent {
		return
	}
	q.overflowed = q.overflowed || overflowed
	if session.IsClosed(detached) {
		return // the request may have been sent on a later connection
	}
	if q.detached != detached {
		q.detached, q.highest = detached, -1
	}
	q.highest = max(q.highest, highest)
}

// recordOwnNumber is recordNumber for the node of a place.
func (q *Queue) recordOwnNumber(detached <-chan struct{}, p *Place) {
	if p.Member.Overflowed() {
		q.recordNumber(detached, p.Tag, -1, true)
		return
	}
	q.recordNumber(detached, p.Tag, p.Member.Sequence, false)
}

// above returns the highest number observed in that life of the parent on the connection that is attached, -1 if none was observed:
// the number of a node that is created on that connection is larger.
func (q *Queue) above(detached <-chan struct{}, parent int64) int32 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.parent != parent || q.detached != detached || session.IsClosed(detached) {
		return -1
	}
	return q.highest
}
