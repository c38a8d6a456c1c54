// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// learn returns the Line's view of the parent. The first use of a path reads the parent,
// and creates it if it is missing.
func (l *Line) learn(ctx context.Context, s *queueSession) (view, error) {
	for {
		l.mu.Lock()
		v, known := view{tag: l.parent, ours: l.ours, highest: l.highest, late: l.late}, l.known
		l.mu.Unlock()
		if known {
			return v, nil
		}
		parent, err := s.parents.Ask(ctx, s.Session, l.path, struct{}{}, func([]struct{}) (parent, error) { return s.readParent(l.path) })
		if err != nil {
			if ctx.Err() != nil {
				err = &Error{Op: "read", Path: l.path, Err: ctx.Err()}
			}
			return view{}, err
		}
		l.mu.Lock()
		if !l.known || l.parent != parent.czxid {
			// Numbers begin anew in each life of the parent.
			l.parent, l.highest, l.late, l.known = parent.czxid, -1, false, true
			l.ours = parent.ours
		}
		l.mu.Unlock()
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
func (l *Line) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = false
}

// notOurs records that this client may not write the parent's data.
func (l *Line) notOurs() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ours = false
}

// stuck records that numbers no longer make names unique.
func (l *Line) stuck() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = true
}

// saw records the highest number given out in that life of the parent. late reports
// whether numbers no longer give the order.
func (l *Line) saw(parent int64, highest int32, late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if parent == l.parent {
		l.highest = max(l.highest, highest)
		l.late = l.late || late
	}
}

// sawOwn is saw for the node of a place.
func (l *Line) sawOwn(p *place) {
	if p.member.late() {
		l.saw(p.Tag, -1, true)
		return
	}
	l.saw(p.Tag, p.member.sequence, false)
}
