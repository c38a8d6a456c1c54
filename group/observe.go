// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/view"
)

// Members returns the members as one server shows them, after it has learned what the leader had
// committed when the call began. A member can be a process that died less than T ago.
//
// The first call in a session lists the group and reads each member. Each later call asks the leader
// once, and reads only what has changed since. It leaves one watch for each member in the session.
func (g *Group) Members(ctx context.Context) (Snapshot, error) {
	if err := g.node.RefuseQueue(ctx); err != nil {
		return Snapshot{}, fmt.Errorf("members: %w", err)
	}
	for {
		view, err := view.New(ctx, g.node)
		if err != nil {
			return Snapshot{}, fmt.Errorf("members: %w", err)
		}
		var snapshot Snapshot
		if err = view.Sync(ctx); err == nil {
			snapshot, err = (&reader{view: view}).read(ctx)
		}
		view.Close()
		if err == nil || view.Ended() == nil || ctx.Err() != nil {
			if err != nil {
				err = fmt.Errorf("members: %w", err)
			}
			return snapshot, err
		}
	}
}

// Observe follows the members: it yields the current ones, all of them as Joined, and then each change,
// in ZooKeeper's order. A reader that is slower than the changes skips to the newest snapshot, with
// all differences from the one that it got last. So does every reader in a burst of changes, which are read
// at most once in T/48.
//
// It shows the group as seen by the server that the client is connected to, which may lag behind. It
// continues across disconnections and sessions. It ends when the reader stops, or with an error as
// its last element that states the reason: ctx's, recipes.ErrClosed, or that with which a server
// refused.
//
// A member that joins, leaves or updates costs one listing, if the members have changed, and one read, however
// many there are. All readers of a client share the watches and what was read.
func (g *Group) Observe(ctx context.Context) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		if err := g.node.RefuseQueue(ctx); err != nil {
			yield(Change{}, fmt.Errorf("observe: %w", err))
			return
		}
		var last *Snapshot
		for {
			view, err := view.New(ctx, g.node)
			if err == nil {
				var more bool
				more, err = follow(ctx, view, &last, yield)
				view.Close()
				switch {
				case !more:
					return
				case view.Ended() != nil && ctx.Err() == nil:
					continue
				}
			}
			yield(Change{}, fmt.Errorf("observe: %w", err))
			return
		}
	}
}

// follow yields the changes since last in one session. It returns why it ended; more is false if the
// reader has stopped.
func follow(ctx context.Context, view *view.View, last **Snapshot, yield func(Change, error) bool) (more bool, err error) {
	r := &reader{view: view}
	for {
		snapshot, err := r.read(ctx)
		if err != nil {
			return true, err
		}
		var before Snapshot
		if *last != nil {
			before = **last
		}
		if change := difference(before, snapshot); *last == nil || !change.isEmpty() {
			// The reader may change what it gets.
			kept := Snapshot{Revision: snapshot.Revision, Members: slices.Clone(snapshot.Members)}
			*last = &kept
			if !yield(change, nil) {
				return false, nil
			}
		}
		if err := view.Wait(ctx); err != nil {
			return true, err
		}
	}
}

// A reader reads the members again and again in one session, and each only if it has changed.
type reader struct {
	view  *view.View
	known map[string]entry // by name
}

// An entry is a child of the group's node.
type entry struct {
	member   Member
	isMember bool
	czxid    int64
	changed  <-chan struct{} // closed when it may have changed
}

// isCurrent reports whether the entry has not changed since it was read.
func (e entry) isCurrent() bool {
	select {
	case <-e.changed:
		return false
	default:
		return e.changed != nil
	}
}

// read returns the members as the server of the view shows them.
func (r *reader) read(ctx context.Context) (Snapshot, error) {
	for {
		children, err := r.view.Children(ctx)
		if err != nil {
			return Snapshot{}, err
		}
		complete, err := r.update(ctx, children.Names)
		if err != nil {
			return Snapshot{}, err
		}
		if complete && !r.isNewer(children) {
			return r.snapshot(children), nil
		}
		// A member has left since it was listed. Another process may have joined with its id.
		if err := r.view.Await(ctx, children.Changed); err != nil {
			return Snapshot{}, err
		}
	}
}

// update reads the children of these names that have changed. complete is false if one of them is
// missing.
func (r *reader) update(ctx context.Context, names []string) (complete bool, err error) {
	known := make(map[string]entry, len(names))
	var stale []string
	for _, name := range names {
		if e := r.known[name]; e.isCurrent() {
			known[name] = e
		} else {
			stale = append(stale, name)
		}
	}
	contents, err := r.view.Read(ctx, stale)
	if err != nil {
		return false, err
	}
	for name, c := range contents {
		e := entry{czxid: c.Stat.Czxid, changed: c.Changed}
		e.member, e.isMember = memberOf(name, c)
		known[name] = e
	}
	r.known = known
	return len(contents) == len(stale), nil
}

// isNewer reports whether a child was created after the listing.
func (r *reader) isNewer(children view.Children) bool {
	for _, e := range r.known {
		if e.czxid > children.Stat.Pzxid {
			return true
		}
	}
	return false
}

func (r *reader) snapshot(children view.Children) Snapshot {
	s := Snapshot{Members: make([]Member, 0, len(r.known))}
	if children.Stat != nil {
		s.Revision = children.Stat.Pzxid
	}
	for _, e := range r.known {
		if e.isMember {
			s.Members = append(s.Members, e.member)
		}
	}
	sortMembers(s.Members)
	return s
}
