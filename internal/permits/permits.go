// SPDX-License-Identifier: Apache-2.0

// Package permits shares a queue between holders of a limited number of permits.
package permits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Permits are a number of permits on a queue, the limit. Each contender claims some of them, its
// weight, and has all of them or none. Contenders are granted their permits in the order of the
// queue: one that needs many is not overtaken by those behind it that need few.
//
// The sum of the weights of all claims is never above the limit, in ZooKeeper's commit order and on
// the conditions that Claim names. The limit is stored in the node <path>-limit. Each grant is a
// transaction that checks the version of that node and marks the contender's own one, so that no
// grant is carried out under a limit that has been changed. An operator must not delete the limit's
// node while contenders exist.
//
// A contender without a weight, such as a contender of a lock on the same path, counts as all permits.
//
// A Permits is safe for concurrent use.
type Permits struct {
	queue     *queue.Queue
	limit     int    // of New, 0 for the stored one
	limitPath string // namespace included
	numbered  bool

	mu     sync.Mutex // guards agreed
	agreed bool       // the stored limit was the one of New, or Resize has changed it
}

// New returns the permits on the queue, 1 to MaxPermits. It sends no request. The first claim
// stores the limit if none is stored. A limit of 0 is the one that is stored: calls return ErrNoLimit if there is none.
func New(q *queue.Queue, limit int) (*Permits, error) { return newPermits(q, limit, false) }

func newPermits(q *queue.Queue, limit int, numbered bool) (*Permits, error) {
	if q == nil {
		return nil, &recipes.Error{Op: "new permits", Err: errors.New("queue is nil")}
	}
	p := &Permits{queue: q, limit: limit, limitPath: q.Path() + "-limit", numbered: numbered, agreed: limit == 0}
	err := error(nil)
	switch {
	case q.Takeover != nil:
		err = queue.ErrMode
	case limit != 0:
		err = p.checkLimit(limit)
	}
	if err != nil {
		return nil, &recipes.Error{Op: "new permits", Path: q.Path(), Err: err}
	}
	return p, nil
}

// Limit returns the stored limit, as the server that this client is connected to sees it. It stores
// the limit of New if there is none.
func (p *Permits) Limit(ctx context.Context) (limit int, err error) {
	err = p.queue.WithSession(ctx, func(s *client.Session) error {
		l, err := p.readLimit(ctx, s)
		limit = l.Permits
		return err
	})
	return limit, err
}

// Claim joins the queue and waits until weight permits are free that no contender ahead waits for.
// It fails as Queue.Claim does. A weight that is not from 1 to the limit is an error, also for a
// waiter whose weight is above the limit after a Resize. The error is a *LimitError if the first
// limit that this process finds stored is not its own.
//
// The claim is shared: its token is a reader's. See Claim.Shared.
func (p *Permits) Claim(ctx context.Context, weight int) (*recipes.Claim, error) {
	if err := p.checkWeight(weight, protocol.MaxPermits); err != nil {
		return nil, err
	}
	return p.queue.Contend(ctx, func(ctx context.Context, s *client.Session) (*recipes.Claim, error) {
		l, err := p.agreedLimit(ctx, s, weight)
		if err != nil {
			return nil, err
		}
		return p.claimIn(ctx, s, int32(weight), l)
	})
}

// Try is Claim if the permits are free and no contender waits for them. Otherwise its error is a
// *BusyError, which names the first contender. It creates nothing then, unless it has lost two races against other contenders:
// then it joins, and leaves immediately if the permits do not fit. The *BusyError names no contender if they have left.
func (p *Permits) Try(ctx context.Context, weight int) (*recipes.Claim, error) {
	if err := p.checkWeight(weight, protocol.MaxPermits); err != nil {
		return nil, err
	}
	return p.queue.Contend(ctx, func(ctx context.Context, s *client.Session) (*recipes.Claim, error) {
		if _, err := p.agreedLimit(ctx, s, weight); err != nil {
			return nil, err
		}
		return p.tryIn(ctx, s, int32(weight), p.numbered, func(permits int) error { return p.checkWeight(weight, permits) })
	})
}

// checkWeight returns an error for a weight that is not possible.
func (p *Permits) checkWeight(weight, limit int) error {
	if 1 <= weight && weight <= limit {
		return nil
	}
	return &recipes.Error{Op: "claim", Path: p.queue.Path(), Err: fmt.Errorf("weight of %d permits: must be 1 to %d", weight, limit)}
}

// claimIn is Claim within one session.
func (p *Permits) claimIn(ctx context.Context, s *client.Session, weight int32, l queue.Limit) (*recipes.Claim, error) {
	pl, alone, err := p.queue.Join(ctx, s, p.entry(s, weight), -1)
	if err != nil {
		return nil, err
	}
	pl.Limit, pl.Numbered = l, p.numbered
	c, err := p.take(ctx, s, pl, alone)
	if err != nil {
		p.queue.Discard(s, pl)
	}
	return c, err
}

// take waits until the permits fit, marks the node and grants the claim. fits reports whether they
// are known to fit under the limit that the place has: it was alone when it joined.
func (p *Permits) take(ctx context.Context, s *client.Session, pl *queue.Place, fits bool) (*recipes.Claim, error) {
	for alone := fits; ; alone = false {
		if !fits {
			if err := p.await(ctx, s, pl); err != nil {
				return nil, err
			}
		}
		var err error
		switch {
		case !pl.Numbered:
			fits, err = p.mark(ctx, s, pl)
		case alone: // the number 0 is free then, as a rule
			if fits, err = p.mark(ctx, s, pl); errors.Is(err, errNumberInUse) {
				fits, err = p.markNumbered(ctx, s, pl, p.awaitNumber)
			}
		default:
			fits, err = p.markNumbered(ctx, s, pl, p.awaitNumber)
		}
		if err != nil {
			return nil, err
		}
		if fits {
			return p.queue.Grant(ctx, s, pl)
		}
	}
}

// tryIn is Try within one session. As in Queue.tryIn, of several tries at the same time one joins
// and the others read again. But a lost race does not show that the permits were taken: the winner may have needed few of them.
// So a try that has lost too many joins whatever the parent's version is, and its position decides.
//
// refuse is asked about the limit before each join: see acceptLimit.
func (p *Permits) tryIn(ctx context.Context, s *client.Session, weight int32, numbered bool, refuse func(permits int) error) (*recipes.Claim, error) {
	q := p.queue
	for lost := 0; ; lost++ {
		l, err := p.acceptLimit(ctx, s, refuse)
		if err != nil {
			return nil, err
		}
		lst, err := queue.List(ctx, s, q.Path())
		if err != nil {
			return nil, err
		}
		taken := protocol.PermitsTaken(lst.Members, l.Permits)
		if taken+int(weight) > l.Permits {
			front, found, err := p.first(ctx, s, lst)
			switch {
			case err != nil:
				return nil, err
			case found || lost > queue.MaxLostRaces:
				return nil, &recipes.BusyError{Path: q.Path(), Front: front, Taken: taken}
			}
			continue // the queue has changed since
		}
		version := int32(0) // of a parent that is created now
		switch {
		case lost == queue.MaxLostRaces:
			version = -1
		case lost > queue.MaxLostRaces:
			return nil, &recipes.BusyError{Path: q.Path(), Taken: taken}
		case lst.Parent != nil:
			version = lst.Parent.Version
		}
		pl, alone, err := q.Join(ctx, s, p.entry(s, weight), version)
		switch {
		case errors.Is(err, queue.ErrContended) && ctx.Err() == nil:
			continue
		case errors.Is(err, queue.ErrContended):
			return nil, &recipes.Error{Op: "join", Path: q.Path(), Err: ctx.Err()}
		case err != nil:
			return nil, err
		}
		pl.Limit, pl.Numbered = l, numbered
		c, err := p.takeNow(ctx, s, pl, alone)
		if c != nil {
			return c, nil
		}
		q.Discard(s, pl)
		if err != nil {
			return nil, err
		}
	}
}

// takeNow is take without waiting. It returns neither a claim nor an error if the limit or the queue
// has changed, and a new listing must show how.
func (p *Permits) takeNow(ctx context.Context, s *client.Session, pl *queue.Place, fits bool) (*recipes.Claim, error) {
	if !fits {
		if d, err := p.queue.Decide(ctx, s, pl); err != nil || !d.Granted() {
			return nil, err
		}
	}
	mark := p.mark
	if pl.Numbered {
		mark = func(ctx context.Context, s *client.Session, pl *queue.Place) (bool, error) {
			return p.markNumbered(ctx, s, pl, p.chooseNumber)
		}
	}
	if fits, err := mark(ctx, s, pl); err != nil || !fits {
		return nil, err
	}
	return p.queue.Grant(ctx, s, pl)
}

// first reads the first contender of the listing. found is false if it is gone.
func (p *Permits) first(ctx context.Context, s *client.Session, lst *queue.Listing) (first recipes.Contender, found bool, err error) {
	members, err := p.queue.Order(ctx, s, slices.Clone(lst.Members))
	if err != nil || len(members) == 0 {
		return recipes.Contender{}, false, err
	}
	first, err = p.queue.Read(ctx, s, members[0].Name)
	return first, err == nil, ignoreNoNode(err)
}

// entry returns the entry of a contender that claims so many permits.
func (p *Permits) entry(s *client.Session, weight int32) queue.Entry {
	e := p.queue.SessionEntry(s, protocol.Exclusive)
	encode := e.Data
	e.Weight = weight
	e.Data = func(pl *queue.Place) []byte {
		pl.Record = encode(pl)
		return pl.Record
	}
	return e
}
