// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// ErrEmpty is returned when the queue has no contender.
var ErrEmpty = errors.New("queue is empty")

// front reads the first of members that still exists.
func (q *Queue) front(ctx context.Context, s *client.Session, members []protocol.Member) (front recipes.Contender, found bool, err error) {
	return q.FrontFor(ctx, s, members, protocol.Exclusive)
}

// FrontFor reads the first of members that still exists and conflicts with that mode.
func (q *Queue) FrontFor(ctx context.Context, s *client.Session, members []protocol.Member, mode protocol.Mode) (front recipes.Contender, found bool, err error) {
	members = slices.DeleteFunc(members, func(m protocol.Member) bool { return !m.Conflicts(mode) })
	if members, err = q.Order(ctx, s, members); err != nil {
		return recipes.Contender{}, false, err
	}
	for _, m := range members {
		front, err := q.Read(ctx, s, m.Name)
		if errors.Is(err, zk.ErrNoNode) || err == nil && mode == protocol.Read && front.Shared {
			continue
		}
		return front, err == nil, err
	}
	return recipes.Contender{}, false, nil
}

// Read reads the contender of that name.
func (q *Queue) Read(ctx context.Context, s *client.Session, name string) (recipes.Contender, error) {
	data, stat, err := s.Get(ctx, q.path+"/"+name)
	if err != nil {
		return recipes.Contender{}, err
	}
	return ContenderOf(name, data, stat), nil
}

// ContenderOf returns the contender whose node a read has returned.
func ContenderOf(name string, data []byte, stat *zk.Stat) recipes.Contender {
	r := protocol.DecodeRecord(data)
	c := recipes.Contender{
		Name: name, Token: fencing.Token(stat.Czxid), Owner: r.Owner, Host: r.Host, PID: r.PID,
		Since: r.Time, Session: stat.EphemeralOwner, Version: stat.Version, Written: time.UnixMilli(stat.Mtime),
		Revoked: (*recipes.Revocation)(r.Revoked),
	}
	m, _ := protocol.ParseMember(name)
	c.Shared = m.Mode == protocol.Read || r.Downgraded(m.Mode)
	c.Permits, c.Priority = int(m.Weight), int(m.Priority)
	c.Held = m.Weight > 0 && r.Format == 1 && r.Held
	if r.Slot != nil && stat.Version == 1 {
		c.Token = fencing.Token(stat.Mzxid) // of its grant
	}
	ttl, isLease := r.LeaseTTL()
	switch {
	case isLease && stat.EphemeralOwner == 0: // the node of a session ends with it, whatever its data is
		c.Kind, c.TTL, c.Held = recipes.KindLease, ttl, r.Held
	case r.Format == 1 && r.Kind == "":
		c.Kind, c.TTL = recipes.KindSession, time.Duration(r.Timeout)*time.Millisecond
	}
	return c
}

// Contenders returns the contenders in queue order, as the server that this client is
// connected to sees them: contenders may have joined or left since. It returns none if
// the queue is empty or its node is missing. It costs one read, and one for each
// contender, up to 96 of which are in flight at the same time. If four connections in turn
// end in place of one answer, Contenders returns an error: each of them ends all other
// requests of the client as well.
func (q *Queue) Contenders(ctx context.Context) (contenders []recipes.Contender, err error) {
	contenders, _, err = q.FirstContenders(ctx, math.MaxInt)
	return contenders, err
}

// FirstContenders is Contenders for the first n of them. more is the number of those behind.
func (q *Queue) FirstContenders(ctx context.Context, n int) (contenders []recipes.Contender, more int, err error) {
	return ReadFirst(ctx, q, n, ContenderOf)
}

// ReadFirst is FirstContenders for callers that read the contenders' nodes in their own way.
func ReadFirst[T any](ctx context.Context, q *Queue, n int, of func(name string, data []byte, stat *zk.Stat) T) (contenders []T, more int, err error) {
	err = q.WithSession(ctx, func(s *client.Session) error {
		contenders, more, err = readFirst(ctx, q, s, n, of)
		return err
	})
	return contenders, more, err
}

func readFirst[T any](
	ctx context.Context, q *Queue, s *client.Session, n int, of func(name string, data []byte, stat *zk.Stat) T,
) (contenders []T, more int, err error) {
	for {
		lst, err := show(ctx, s, q.path)
		if err != nil {
			return nil, 0, err
		}
		members, err := q.Order(ctx, s, slices.Clone(lst.Members))
		if err != nil {
			return nil, 0, err
		}
		n := min(n, len(members))
		contenders, err = readAll(ctx, q, s, members[:n], of)
		if more = len(members) - n; err != nil || len(contenders) > 0 || more == 0 {
			return contenders, more, err
		}
	}
}

// readAll reads members, and omits those that no longer exist.
func readAll[T any](
	ctx context.Context, q *Queue, s *client.Session, members []protocol.Member, of func(name string, data []byte, stat *zk.Stat) T,
) ([]T, error) {
	all := make([]T, len(members))
	errs := make([]error, len(members))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	indexes := make([]int, len(members))
	for i := range indexes {
		indexes[i] = i
	}
	err := session.Each(s.Session, indexes, func(i int) {
		data, stat, err := s.GetAtMost(ctx, q.path+"/"+members[i].Name)
		if errs[i] = err; err == nil {
			all[i] = of(members[i].Name, data, stat)
		}
		if errs[i] != nil && !errors.Is(errs[i], zk.ErrNoNode) {
			cancel(errs[i]) // the other answers are not needed
		}
	})
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if err != nil {
		return nil, &recipes.Error{Op: "read", Path: q.path, Err: err}
	}
	contenders := make([]T, 0, len(all))
	for i, c := range all {
		if errs[i] == nil {
			contenders = append(contenders, c)
		}
	}
	return contenders, nil
}

// First returns the first contender, as the server that this client is connected
// to sees it, or ErrEmpty. It costs two reads.
func (q *Queue) First(ctx context.Context) (first recipes.Contender, err error) {
	err = q.WithSession(ctx, func(s *client.Session) error {
		for {
			lst, err := List(ctx, s, q.path)
			if err != nil {
				return err
			}
			if len(lst.Members) == 0 {
				return &recipes.Error{Op: "read", Path: q.path, Err: ErrEmpty}
			}
			front, found, err := q.front(ctx, s, slices.Clone(lst.Members))
			if found || err != nil {
				first = front
				return err
			}
			// All that were listed have left. Others may have joined before.
		}
	})
	return first, err
}

// A Front is the front of a queue at one moment.
type Front struct {
	Contender recipes.Contender
	Empty     bool            // the queue is empty, and Contender is not set
	Changed   <-chan struct{} // closed when the front may have changed
}

// Front returns the first contender, and watches for a change of it with one watch
// on that contender's node, however many wait behind it. It is as seen by the
// server that this client is connected to. Changed is also closed when the session
// is over.
func (q *Queue) Front(ctx context.Context) (front Front, err error) {
	err = q.WithSession(ctx, func(s *client.Session) error {
		front, err = q.watchFront(ctx, s)
		return err
	})
	return front, err
}

func (q *Queue) watchFront(ctx context.Context, s *client.Session) (Front, error) {
	for {
		lst, err := List(ctx, s, q.path)
		if err != nil {
			return Front{}, err
		}
		missing := lst.Parent == nil
		front, found, err := q.front(ctx, s, slices.Clone(lst.Members))
		if err != nil {
			return Front{}, err
		}
		path, kind := q.path+"/"+front.Name, session.WatchNode
		switch {
		case missing:
			path, kind = q.path, session.WatchCreation
		case !found:
			path, kind = q.path, session.WatchChildren
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
		// A contender that joined before the watch was set does not trigger it.
		lst, err = List(ctx, s, q.path)
		if err != nil {
			return Front{}, err
		}
		if (lst.Parent == nil) == missing && len(lst.Members) == 0 {
			return Front{Empty: true, Changed: w.Fired()}, nil
		}
	}
}

// WithSession runs reads in a session, and again in the next one if the session ends.
func (q *Queue) WithSession(ctx context.Context, reads func(*client.Session) error) error {
	return q.Client.WithSession(ctx, q.path, reads)
}

// Order sorts members, and reads the czxids that it needs for that. It omits members
// that no longer exist by then.
func (q *Queue) Order(ctx context.Context, s *client.Session, members []protocol.Member) ([]protocol.Member, error) {
	members, err := q.orderable(ctx, s, members)
	if err != nil {
		return nil, err
	}
	protocol.Sort(members)
	return members, nil
}
