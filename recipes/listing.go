// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/session"
)

// A listing is the queue below one parent as a server showed it at one moment. All
// callers that asked for it share it. It does not change.
type listing struct {
	parent     *zk.Stat // nil if the parent is missing
	members    []protocol.Member
	highest    int32 // the largest number in a name with the parent's own tag, -1 if none
	overflowed bool  // such a name has a number that gives no order
	plain      bool  // numbers alone give the order

	uses atomic.Int32 // how many callers have asked for a decision
	sort sync.Once    // guards setting order
	// order has the members by number, from the second caller on: for an exclusive contender that
	// is the first one, a scan is cheaper.
	order *protocol.Order

	name  sync.Once // guards setting named
	named []string  // the names of order
}

func newListing(children []string, parent *zk.Stat) *listing {
	lst := &listing{parent: parent, members: protocol.ParseMembers(children), highest: -1}
	lst.plain = len(protocol.Unordered(lst.members)) == 0
	prefix := strconv.FormatInt(parent.Czxid, 36) + "-"
	for _, m := range lst.members {
		switch {
		case !strings.HasPrefix(m.Name, prefix):
		case m.Overflowed():
			lst.overflowed = true
		default:
			lst.highest = max(lst.highest, m.Sequence)
		}
	}
	return lst
}

// decide is order.Decide for a listing that is plain.
func (lst *listing) decide(own protocol.Member, limit int) (d protocol.Decision, listed bool) {
	if lst.uses.Add(1) == 1 && own.Mode != Read && own.Weight == 0 {
		return protocol.DecideAlone(lst.members, own)
	}
	own.Czxid = 0 // as of all members, since numbers order them
	return lst.inOrder().Decide(own, limit)
}

// inOrder returns a plain listing in its order.
func (lst *listing) inOrder() *protocol.Order {
	lst.sort.Do(func() { lst.order = protocol.NewOrder(slices.Clone(lst.members)) })
	return lst.order
}

// names returns the names of the members of a plain listing, the front first.
func (lst *listing) names() []string {
	lst.name.Do(func() { lst.named = namesOf(lst.inOrder().Members) })
	return lst.named
}

func namesOf(members []protocol.Member) []string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.Name
	}
	return names
}

// A parent is a server's view of the node below which contenders queue.
type parent struct {
	czxid    int64
	writable bool // its data is empty or this library's, and so this client may write it
}

// sharing lets contenders that need the same answer of the servers at the same time share one request.
type sharing struct {
	lists   session.Sharing[struct{}, *listing]
	shown   session.Sharing[struct{}, *listing]
	paced   session.Sharing[struct{}, *listing]
	parents session.Sharing[struct{}, parent]
	finds   session.Sharing[*session.Node, map[string]protocol.Member]
}

// shared has what the contenders of a session share.
var shared client.SessionSlot[sharing]

// list returns a listing that the server made after the call began.
func list(ctx context.Context, s *client.Session, path string) (*listing, error) {
	return listBy(ctx, s, &shared.Of(s).lists, path, s.Children)
}

// show is list for a caller that only shows the queue: it returns an error if connections end in place of the answer.
func show(ctx context.Context, s *client.Session, path string) (*listing, error) {
	return listBy(ctx, s, &shared.Of(s).shown, path, s.ChildrenAtMost)
}

func listBy(
	ctx context.Context, s *client.Session, requests *session.Sharing[struct{}, *listing], path string,
	request func(context.Context, string) ([]string, *zk.Stat, error),
) (*listing, error) {
	lst, err := requests.Do(ctx, s.Session, path, struct{}{}, func([]struct{}) (*listing, error) {
		children, stat, err := request(s.Context(), path)
		if errors.Is(err, zk.ErrNoNode) {
			return &listing{highest: -1, plain: true}, nil
		}
		if err != nil {
			return nil, err
		}
		return newListing(children, stat), nil
	})
	if err != nil && ctx.Err() != nil {
		err = &Error{Op: "list", Path: path, Err: ctx.Err()}
	}
	return lst, err
}
