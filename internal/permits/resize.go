// SPDX-License-Identifier: Apache-2.0

package permits

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/claim"
	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// errLimitMoved reports that the stored limit was changed by another client.
var errLimitMoved = errors.New("limit was changed by another client")

// ErrLoweredInPart reports that the limit was lowered, but not to the new one.
var ErrLoweredInPart = errors.New("limit was lowered in part")

// errLimitStored reports that the stored limit is the new one already.
var errLimitStored = errors.New("limit is stored")

// Resize stores another limit, 1 to MaxPermits. Waiters that fit under a higher one are granted their
// permits. To lower it, Resize claims the difference for the time of the write: if so many permits
// are not free, or a contender waits for them, its error wraps a *BusyError, and nothing is
// changed unless it also wraps ErrLoweredInPart. After ErrUncertain, ctx ended before it was known whether the limit was stored.
//
// A nil error means that the limit was stored at some instant after the call began, in ZooKeeper's commit order.
//
// Other processes that have claimed permits before follow the new limit. A process that is started
// with the former one gets a *LimitError.
func (p *Permits) Resize(ctx context.Context, limit int) error {
	fail := func(err error) error { return &recipes.Error{Op: "resize", Path: p.queue.Path(), Err: err} }
	if ctx == nil {
		return fail(sentinel.ErrNilContext)
	}
	if err := p.checkLimit(limit); err != nil {
		return fail(err)
	}
	loweredInPart := false
	unsure := 0 // the limit of a step that was not answered
	for {
		from, to, err := p.resize(ctx, limit)
		lowered := errors.Is(err, ErrLoweredInPart)
		loweredInPart = loweredInPart || lowered || from > 0 && from == unsure
		if to > 0 && errors.Is(err, sentinel.ErrUncertain) {
			unsure = to
		}
		switch {
		case err == nil:
			p.follow()
			return nil
		case ctx.Err() == nil && (lowered || errors.Is(err, errLimitMoved) || errors.Is(err, sentinel.ErrUncertain)):
			continue // the next read, or at the latest the next write, shows what is stored
		case ctx.Err() == nil && errors.Is(err, sentinel.ErrLost) && !errors.Is(err, sentinel.ErrClosed):
			continue // nothing was changed under the claim
		}
		if busy := (*recipes.BusyError)(nil); errors.As(err, &busy) && busy.Taken > limit {
			err = fmt.Errorf("limit of %d permits is below the %d that are held or waited for: %w", limit, busy.Taken, err)
		}
		if loweredInPart && !lowered {
			err = fmt.Errorf("%w: %w", ErrLoweredInPart, err)
		}
		return fail(sentinel.WithCtx(ctx, err))
	}
}

// resize is one attempt of Resize. from is the limit that it read, 0 if it read none, and to the lower one that it tried to store, 0 if it
// tried none.
func (p *Permits) resize(ctx context.Context, limit int) (from, to int, err error) {
	var l queue.Limit
	err = p.queue.WithSession(ctx, func(s *client.Session) (err error) {
		l, err = p.acceptLimit(ctx, s, func(permits int) error {
			if permits == limit {
				return errLimitStored
			}
			return nil
		})
		if err != nil || l.Permits > limit {
			return err
		}
		return p.storeLimit(ctx, s, limit, l.Version)
	})
	switch {
	case errors.Is(err, errLimitStored):
		return l.Permits, 0, nil
	case err != nil || l.Permits < limit:
		return l.Permits, 0, err
	}
	to, err = p.lower(ctx, l, limit)
	return l.Permits, to, err
}

// storeLimit stores a higher limit.
func (p *Permits) storeLimit(ctx context.Context, s *client.Session, limit int, version int32) error {
	_, err := session.Retry(ctx, s.Session, "set", p.limitPath, func(conn *zk.Conn) (*zk.Stat, error) {
		return conn.Set(p.limitPath, p.encodeLimit(limit), version)
	})
	if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) {
		return errLimitMoved // perhaps by an attempt of this call that was not answered
	}
	return err
}

// lower stores a lower limit while this client has the permits that are to vanish: the other
// claims fit under the new limit then, and no grant can be carried out that does not. If the permits are numbered, the server refuses
// the write while one of the numbers that are to vanish is in use. So many numbers that one transaction cannot have them all vanish in
// several steps. to is the limit that the step tried to store, 0 if it tried none.
func (p *Permits) lower(ctx context.Context, from queue.Limit, limit int) (to int, err error) {
	to = limit
	if p.numbered {
		to = max(limit, from.Permits-p.mostRemoved())
	}
	if to > limit {
		// The write refuses what this step removes. A number that a later step removes is found before the first one changes the limit.
		if err := p.removedInUse(ctx, from, limit); err != nil {
			return 0, err
		}
	}
	c, err := p.queue.Contend(ctx, func(ctx context.Context, s *client.Session) (*recipes.Claim, error) {
		return p.tryIn(ctx, s, int32(from.Permits-to), false, func(permits int) error {
			if permits != from.Permits {
				return errLimitMoved // the difference is another one
			}
			return nil
		})
	})
	if err != nil {
		return 0, err
	}
	ops := []any{&zk.SetDataRequest{Path: p.limitPath, Data: p.encodeLimit(to), Version: from.Version}}
	if p.numbered {
		ops = p.removeNumbers(ops, to, from.Permits)
	}
	results, err := claim.Of(c).Commit(ctx, "", ops)
	switch {
	case errors.Is(err, zk.ErrNodeExists):
		err = p.numberInUse(ctx, to+(firstRefused(results)-1)/2, err)
	case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode):
		err = errLimitMoved
	case err == nil && to > limit:
		err = ErrLoweredInPart
	}
	if released := p.queue.Release(ctx, c); err == nil && !errors.Is(released, sentinel.ErrLost) {
		err = released
	}
	return to, err
}
