// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes/internal/session"
)

// A Contender is somebody who stands in line.
type Contender struct {
	Name    string        // of its node, below the line's path
	Token   fencing.Token // that it has, or would have if it came to the front
	Owner   string        // label; of nodes that other libraries made, their data
	Host    string        // empty if another library made the node
	PID     int           // 0 if another library made the node
	Since   time.Time     // when it joined, by the clock of its host
	Session int64         // that its node belongs to
}

// ErrEmpty is returned when nobody stands in line.
var ErrEmpty = errors.New("nobody in line")

// A BusyError says that somebody is in line.
type BusyError struct {
	Path  string    // of the line
	Front Contender // the first in line
}

// Error names the first in line.
func (e *BusyError) Error() string {
	return fmt.Sprintf("%s is held by %q (%s)", e.Path, e.Front.Owner, e.Front.Name)
}

// front reads the first of members that still exists.
func (l *Line) front(ctx context.Context, s *queueSession, members []member) (front Contender, found bool, err error) {
	if members, err = l.order(ctx, s, members); err != nil {
		return Contender{}, false, err
	}
	for _, m := range members {
		front, err := l.read(ctx, s, m.name)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		return front, err == nil, err
	}
	return Contender{}, false, nil
}

func (l *Line) read(ctx context.Context, s *queueSession, name string) (Contender, error) {
	data, stat, err := s.Get(ctx, l.path+"/"+name)
	if err != nil {
		return Contender{}, err
	}
	r := decodeRecord(data)
	return Contender{
		Name: name, Token: fencing.Token(stat.Czxid), Owner: r.Owner, Host: r.Host, PID: r.PID,
		Since: r.Time, Session: stat.EphemeralOwner,
	}, nil
}

// Contenders returns who stands in line, the first one first, as the server that
// this client is connected to sees it: others may have come and gone. An empty
// line, and a missing one, have none. It costs one read, and one for each, up to 96 of
// which are on their way at the same time.
func (l *Line) Contenders(ctx context.Context) (contenders []Contender, err error) {
	err = l.look(ctx, func(s *queueSession) error {
		contenders = nil
		lst, err := s.list(ctx, l.path)
		if err != nil {
			return err
		}
		members, err := l.order(ctx, s, slices.Clone(lst.members))
		if err != nil {
			return err
		}
		contenders, err = l.readAll(ctx, s, members)
		return err
	})
	return contenders, err
}

// readAll reads members, and leaves out those that are gone.
func (l *Line) readAll(ctx context.Context, s *queueSession, members []member) ([]Contender, error) {
	all := make([]Contender, len(members))
	errs := make([]error, len(members))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	indexes := make([]int, len(members))
	for i := range indexes {
		indexes[i] = i
	}
	err := session.Each(s.Session, indexes, func(i int) {
		all[i], errs[i] = l.read(ctx, s, members[i].name)
		if errs[i] != nil && !errors.Is(errs[i], zk.ErrNoNode) {
			cancel(errs[i]) // the others are of no use
		}
	})
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if err != nil {
		return nil, &Error{Op: "read", Path: l.path, Err: err}
	}
	contenders := make([]Contender, 0, len(all))
	for i, c := range all {
		if errs[i] == nil {
			contenders = append(contenders, c)
		}
	}
	return contenders, nil
}

// First returns who is first in line, as the server that this client is connected
// to sees it, or ErrEmpty. It costs two reads.
func (l *Line) First(ctx context.Context) (first Contender, err error) {
	err = l.look(ctx, func(s *queueSession) error {
		lst, err := s.list(ctx, l.path)
		if err != nil {
			return err
		}
		front, found, err := l.front(ctx, s, slices.Clone(lst.members))
		if err == nil && !found {
			err = &Error{Op: "read", Path: l.path, Err: ErrEmpty}
		}
		first = front
		return err
	})
	return first, err
}

// A Front is who is first in line, at a moment.
type Front struct {
	Contender Contender
	Empty     bool            // nobody is, and Contender says nothing
	Changed   <-chan struct{} // closed when that may have changed
}

// Front returns who is first in line, and watches whether that changes: by one
// watch on the first one's node, however many wait behind it. The view is that of
// the server that this client is connected to. Changed is closed, too, when the
// session is over.
func (l *Line) Front(ctx context.Context) (front Front, err error) {
	err = l.look(ctx, func(s *queueSession) error {
		front, err = l.watchFront(ctx, s)
		return err
	})
	return front, err
}

func (l *Line) watchFront(ctx context.Context, s *queueSession) (Front, error) {
	for {
		lst, err := s.list(ctx, l.path)
		if err != nil {
			return Front{}, err
		}
		missing := lst.parent == nil
		front, found, err := l.front(ctx, s, slices.Clone(lst.members))
		if err != nil {
			return Front{}, err
		}
		path, kind := l.path+"/"+front.Name, session.WatchNode
		switch {
		case missing:
			path, kind = l.path, session.WatchCreation
		case !found:
			path, kind = l.path, session.WatchChildren
		}
		w, err := s.Watch(ctx, path, kind)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return Front{}, err
		}
		if found {
			return Front{Contender: front, Changed: w.Fired()}, nil
		}
		// Somebody may have come before the watch was set, who will not trip it.
		lst, err = s.list(ctx, l.path)
		if err != nil {
			return Front{}, err
		}
		if (lst.parent == nil) == missing && len(lst.members) == 0 {
			return Front{Empty: true, Changed: w.Fired()}, nil
		}
	}
}

// look runs reads in a session, and again in the next one if it is over.
func (l *Line) look(ctx context.Context, reads func(*queueSession) error) error {
	return l.client.look(ctx, l.path, reads)
}

// look runs reads of what is at path in a session, and again in the next one if it
// is over.
func (c *Client) look(ctx context.Context, path string, reads func(*queueSession) error) error {
	if ctx == nil {
		return &Error{Op: "read", Path: path, Err: errNilContext}
	}
	for {
		s, err := c.session(ctx)
		if err != nil {
			return &Error{Op: "read", Path: path, Err: withCtx(ctx, err)}
		}
		err = reads(s)
		if err == nil || s.Ended() == nil || ctx.Err() != nil {
			if err != nil {
				err = withCtx(ctx, err)
			}
			return err
		}
	}
}

// order sorts members, reading what it needs for it. Those that are gone by then
// are left out.
func (l *Line) order(ctx context.Context, s *queueSession, members []member) ([]member, error) {
	members, err := l.orderable(ctx, s, members)
	if err != nil {
		return nil, err
	}
	sortMembers(members)
	return members, nil
}

// orderable reads the czxid of those members whose number does not say where
// they stand. Names do not recur, so what was read once is kept.
func (l *Line) orderable(ctx context.Context, s *queueSession, members []member) ([]member, error) {
	names := unordered(members)
	if len(names) == 0 {
		return members, nil
	}
	l.mu.Lock()
	known := l.czxids
	l.mu.Unlock()
	present := make(map[string]int64, len(names)) // replaces known, which others may be reading
	for _, name := range names {
		czxid, ok := known[name]
		if !ok {
			_, stat, err := s.Get(ctx, l.path+"/"+name)
			if errors.Is(err, zk.ErrNoNode) {
				continue
			}
			if err != nil {
				return nil, err
			}
			czxid = stat.Czxid
		}
		present[name] = czxid
	}
	l.mu.Lock()
	l.czxids = present
	l.mu.Unlock()
	gone := make(map[string]bool, len(names))
	for _, name := range names {
		gone[name] = present[name] == 0
	}
	ordered := make([]member, 0, len(members))
	for _, m := range members {
		if gone[m.name] {
			continue
		}
		if m.czxid == 0 {
			m.czxid = present[m.name]
		}
		ordered = append(ordered, m)
	}
	return ordered, nil
}
