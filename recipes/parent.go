// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// learn returns the Queue's view of the parent. The first use of a path reads the parent,
// and creates it if it is missing.
func (q *Queue) learn(ctx context.Context, s *queueSession) (view, error) {
	for {
		q.mu.Lock()
		v, known := view{tag: q.parent, ours: q.ours, highest: q.highest, late: q.late}, q.known
		q.mu.Unlock()
		if known {
			return v, nil
		}
		parent, err := s.parents.Ask(ctx, s.Session, q.path, struct{}{}, func([]struct{}) (parent, error) { return s.readParent(q.path) })
		if err != nil {
			if ctx.Err() != nil {
				err = &Error{Op: "read", Path: q.path, Err: ctx.Err()}
			}
			return view{}, err
		}
		q.mu.Lock()
		if !q.known || q.parent != parent.czxid {
			// Numbers begin anew in each life of the parent.
			q.parent, q.highest, q.late, q.known = parent.czxid, -1, false, true
			q.ours = parent.ours
		}
		q.mu.Unlock()
	}
}

// readParent reads the node at path, and creates it if it is missing.
func (s *queueSession) readParent(path string) (parent, error) {
	for {
		data, stat, err := s.Get(s.Context(), path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			if err := s.CreateParents(s.Context(), path, []byte(parentMark)); err != nil {
				return parent{}, err
			}
		case err != nil:
			return parent{}, err
		default:
			return parent{stat.Czxid, len(data) == 0 || string(data) == parentMark}, nil
		}
	}
}

// forget makes the next attempt read the parent again.
func (q *Queue) forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.known = false
}

// notOurs records that this client may not write the parent's data.
func (q *Queue) notOurs() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ours = false
}

// stuck records that numbers no longer make names unique.
func (q *Queue) stuck() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.late = true
}

// saw records the highest number given out in that life of the parent. late reports
// whether numbers no longer give the order.
func (q *Queue) saw(parent int64, highest int32, late bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if parent == q.parent {
		q.highest = max(q.highest, highest)
		q.late = q.late || late
	}
}

// sawOwn is saw for the node of a place.
func (q *Queue) sawOwn(p *place) {
	if p.member.late() {
		q.saw(p.Tag, -1, true)
		return
	}
	q.saw(p.Tag, p.member.sequence, false)
}
