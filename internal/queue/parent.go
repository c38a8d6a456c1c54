// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Learn returns the Queue's view of the parent. The first use of a path reads the parent,
// and creates it if it is missing.
func (q *Queue) Learn(ctx context.Context, s *client.Session) (parentView, error) {
	for {
		q.mu.Lock()
		v, known := parentView{q.parent, q.writable, q.highest, q.overflowed, q.hint}, q.known
		if q.session != s.ID() {
			v.highest, v.hint = -1, 0
		}
		q.mu.Unlock()
		if known {
			return v, nil
		}
		parent, err := shared.Of(s).parents.Do(ctx, s.Session, q.path, struct{}{}, func(context.Context, []struct{}) (parent, error) { return readParent(s, q.path) })
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

// readParent reads the node at path, and creates it if it is missing.
func readParent(s *client.Session, path string) (parent, error) {
	for {
		data, stat, err := s.Get(s.Context(), path)
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

// recordIn begins to record what one session observes. Between two sessions, the ensemble can have been restored: the parent has the same
// czxid, and gives numbers again that were given before. The caller holds mu.
func (q *Queue) recordIn(session int64) {
	if q.session != session {
		q.session, q.highest, q.hint = session, -1, 0
	}
}

// recordNumber records the highest number given out in that life of the parent, as a session has observed it. overflowed reports
// whether numbers no longer give the order.
func (q *Queue) recordNumber(session, parent int64, highest int32, overflowed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if parent == q.parent {
		q.recordIn(session)
		q.highest = max(q.highest, highest)
		q.overflowed = q.overflowed || overflowed
	}
}

// recordOwnNumber is recordNumber for the node of a place.
func (q *Queue) recordOwnNumber(session int64, p *Place) {
	if p.Member.Overflowed() {
		q.recordNumber(session, p.Tag, -1, true)
		return
	}
	q.recordNumber(session, p.Tag, p.Member.Sequence, false)
}
