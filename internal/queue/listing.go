// SPDX-License-Identifier: Apache-2.0

package queue

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
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Listing is the queue below one parent as a server showed it at one moment. All
// callers that asked for it share it. It does not change.
type Listing struct {
	Parent     *zk.Stat // nil if the parent is missing
	Members    []protocol.Member
	highest    int32     // the largest number in a name with the parent's own tag, -1 if none
	last       [2]string // names of this library that have the parent's own tag and the largest numbers; the last one first
	overflowed bool      // such a name has a number that gives no order
	Plain      bool      // numbers alone give the order

	uses atomic.Int32 // how many callers have asked for a decision
	sort sync.Once    // guards setting order
	// order has the members by number, from the second caller on: for an exclusive contender that
	// is the first one, a scan is cheaper.
	order *protocol.Order

	name  sync.Once // guards setting named
	named []string  // the names of order
}

// NewListing returns the queue below a parent that has these children.
func NewListing(children []string, parent *zk.Stat) *Listing {
	lst := &Listing{Parent: parent, Members: protocol.ParseMembers(children), highest: -1}
	lst.Plain = len(protocol.Unordered(lst.Members)) == 0
	prefix := strconv.FormatInt(parent.Czxid, 36) + "-"
	for _, m := range lst.Members {
		switch {
		case !strings.HasPrefix(m.Name, prefix):
		case m.Overflowed():
			lst.overflowed = true
		default:
			if m.Sequence >= lst.highest {
				lst.highest, lst.last = m.Sequence, [2]string{m.Name, lst.last[0]}
			}
		}
	}
	return lst
}

// decide is order.Decide for a listing that is plain.
func (lst *Listing) decide(own protocol.Member, limit int) (d protocol.Decision, listed bool) {
	if lst.uses.Add(1) == 1 && own.Mode != protocol.Read && own.Weight == 0 {
		return protocol.DecideAlone(lst.Members, own)
	}
	own.Czxid = 0 // as of all members, since numbers order them
	return lst.InOrder().Decide(own, limit)
}

// InOrder returns a plain listing in its order.
func (lst *Listing) InOrder() *protocol.Order {
	lst.sort.Do(func() { lst.order = protocol.NewOrder(slices.Clone(lst.Members)) })
	return lst.order
}

// Names returns the names of the members of a plain listing, the front first.
func (lst *Listing) Names() []string {
	lst.name.Do(func() { lst.named = NamesOf(lst.InOrder().Members) })
	return lst.named
}

// NamesOf returns the names of members, in their order.
func NamesOf(members []protocol.Member) []string {
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
	lists   session.Sharing[struct{}, *Listing]
	shown   session.Sharing[struct{}, *Listing]
	paced   session.Sharing[struct{}, *Listing]
	parents session.Sharing[struct{}, parent]
	finds   session.Sharing[*nodes.Node, map[string]protocol.Member]
	czxids  czxids
}

// shared has what the contenders of a session share.
var shared client.SessionSlot[sharing]

// List returns a listing that the server made after the call began.
func List(ctx context.Context, s *client.Session, path string) (*Listing, error) {
	return listBy(ctx, s, &shared.Of(s).lists, path, s.ChildrenWhileAsked)
}

// show is list for a caller that only shows the queue: it returns an error if connections end in place of the answer.
func show(ctx context.Context, s *client.Session, path string) (*Listing, error) {
	return listBy(ctx, s, &shared.Of(s).shown, path, func(_ context.Context, path string) ([]string, *zk.Stat, error) {
		return s.ChildrenAtMost(s.Context(), path)
	})
}

func listBy(
	ctx context.Context, s *client.Session, requests *session.Sharing[struct{}, *Listing], path string,
	request func(asked context.Context, path string) ([]string, *zk.Stat, error),
) (*Listing, error) {
	lst, err := requests.Do(ctx, s.Session, path, struct{}{}, func(asked context.Context, _ []struct{}) (*Listing, error) {
		children, stat, err := request(asked, path)
		if errors.Is(err, zk.ErrNoNode) {
			return &Listing{highest: -1, Plain: true}, nil
		}
		if err != nil {
			return nil, err
		}
		return NewListing(children, stat), nil
	})
	if err != nil && ctx.Err() != nil {
		err = &recipes.Error{Op: "list", Path: path, Err: ctx.Err()}
	}
	return lst, err
}
