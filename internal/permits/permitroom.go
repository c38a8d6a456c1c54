// SPDX-License-Identifier: Apache-2.0

package permits

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// maxHoldersWatched is up to how many holders the first waiter watches one by one: so many reads
// are about as large as the listing of a few hundred names.
const maxHoldersWatched = 16

// A room waits until the permits of the first waiter fit. All contenders ahead have permits, and the
// departure of any of them can make room.
//
// At first it watches the queue. But that watch also fires for each contender that joins, and each
// time costs a listing: a burst of joins would cost as many listings of as many names. So after a
// listing that shows no departure, it watches the nodes of the holders, and contenders that join cost
// nothing. If the holders are too many, it spaces the listings of a long queue instead.
type room struct {
	*Permits
	session *client.Session
	place   *queue.Place

	held    int           // contenders ahead in the last listing, -1 if that is not known
	holders []string      // the names of the nodes that are watched; if empty, the queue is watched
	pause   time.Duration // before the next listing
}

// await waits until the permits fit under the limit that the place then has.
func (r *room) await(ctx context.Context) error {
	bell, stop := r.session.Bell(r.queue.Path())
	defer stop()
	for {
		if err := r.refresh(ctx, r.session, r.place); err != nil {
			return err
		}
		own, err := r.session.WatchOwn(ctx, r.place.Node)
		var event <-chan struct{}
		if err == nil {
			event, err = r.watch(ctx, bell)
		}
		switch {
		case errors.Is(err, zk.ErrNoNode): // the place's node is deleted, or not visible on this server yet
			d, err := r.queue.Decide(ctx, r.session, r.place)
			if err != nil || d.Granted() {
				return err
			}
			continue
		case err != nil || event == nil:
			return err
		}
		if r.pause > 0 {
			if err := r.wait(ctx, own, nil, time.After(r.pause)); err != nil {
				return err
			}
		}
		if err := r.wait(ctx, own, event, nil); err != nil {
			return err
		}
	}
}

// watch returns the event after which the permits may fit, nil if they fit already. bell is
// the session's, of the queue. Its error is zk.ErrNoNode if the queue is missing.
func (r *room) watch(ctx context.Context, bell <-chan struct{}) (event <-chan struct{}, err error) {
	for {
		if len(r.holders) > 0 {
			left, err := r.watchHolders(ctx)
			if err != nil || !left {
				return bell, err
			}
			r.holders = nil // a listing decides
		}
		children, err := r.session.Watch(ctx, r.queue.Path(), session.WatchChildren)
		if err != nil {
			return nil, err
		}
		fits, err := r.fits(ctx, children)
		if err != nil || fits {
			return nil, err
		}
		if len(r.holders) == 0 {
			return children.Fired(), nil
		}
	}
}

// watchHolders watches the nodes of the holders, and reports whether one of them has left.
func (r *room) watchHolders(ctx context.Context) (left bool, err error) {
	for _, name := range r.holders {
		_, err := r.session.Watch(ctx, r.queue.Path()+"/"+name, session.WatchNode)
		if err != nil {
			return errors.Is(err, zk.ErrNoNode), ignoreNoNode(err)
		}
	}
	return false, nil
}

func ignoreNoNode(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// wait waits for the event or the time, or until the limit may have changed or the place's own node
// may be gone. It returns an error if the place cannot wait any longer.
func (r *room) wait(ctx context.Context, own *session.Watch, event <-chan struct{}, at <-chan time.Time) error {
	fail := func(err error) error { return &recipes.Error{Op: "wait", Path: r.place.Path, Err: err} }
	r.session.Nodes.SetBehind(r.place.Node, true)
	defer r.session.Nodes.SetBehind(r.place.Node, false)
	select {
	case <-event:
	case <-at:
	case <-r.place.Limit.Changed:
		r.holders = nil // other permits fit, perhaps without a departure
	case <-own.Fired():
	case <-r.place.Lost():
		return fail(sentinel.ErrDeleted)
	case <-ctx.Done():
		return fail(ctx.Err())
	}
	if over := r.session.Ended(); over != nil {
		return fail(over)
	}
	return nil
}

// fits decides by the children that the watch of the queue has shown, and by a new listing if those
// do not contain the place's own node in its parent.
func (r *room) fits(ctx context.Context, children *session.Watch) (fits bool, err error) {
	names, stat := children.Children()
	if stat.Czxid == r.place.Tag {
		lst := queue.NewListing(names, stat)
		d, listed, err := r.queue.DecideBy(ctx, r.session, lst, r.place)
		if err == nil && listed && !d.Granted() {
			r.note(lst)
		}
		if err != nil || listed {
			return listed && d.Granted(), err
		}
	}
	d, err := r.queue.Decide(ctx, r.session, r.place)
	return err == nil && d.Granted(), err
}

// note determines from a listing by which the permits do not fit how the next departure is noticed.
func (r *room) note(lst *queue.Listing) {
	var ahead []protocol.Member
	if lst.Plain && !r.place.Member.Overflowed() {
		members := lst.InOrder().Members
		i := slices.IndexFunc(members, func(m protocol.Member) bool { return m.Name == r.place.Member.Name })
		ahead = members[:i]
	}
	departed := len(ahead) != r.held // those ahead only become fewer
	r.held, r.holders, r.pause = len(ahead), nil, 0
	switch {
	case departed || len(ahead) == 0:
	case len(ahead) <= maxHoldersWatched:
		r.holders = queue.NamesOf(ahead)
	case len(lst.Members) > queue.MaxUnpaced:
		r.pause = time.Duration(len(lst.Members)) * queue.PacePerMember
	}
}
