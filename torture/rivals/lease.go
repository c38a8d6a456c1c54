// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rivals

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture/worker"
)

// errGone is the error of a renewal when another client holds the lease, or no client does.
var errGone = errors.New("no longer ours")

// drift is what a holder subtracts from a key's time to live, as the algorithm's description and its implementations do:
// clocks run at different rates, and a server's expiry has a granularity.
//
// https://redis.io/docs/latest/develop/use/patterns/distributed-locks/ (MIN_VALIDITY, CLOCK_DRIFT)
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// A lease is a hold that lasts until an instant, and is renewed before. Its holder must do all of this itself: the server that
// stores it notifies no client.
type lease struct {
	*claim
	token   history.ID // 0: there are none
	stop    chan struct{}
	keeping sync.WaitGroup
	release func(context.Context) error
	freeing sync.Once
	freed   error // what release returned; valid after freeing
}

// Grant has the token, where there is one.
func (l *lease) Grant() history.Event { return history.Event{Token: l.token} }

// keep holds until the given instant, which renew extends every third of ttl. Renew returns errGone if there is nothing to
// renew; keep retries after other errors, as long as there is time.
func keep(until time.Time, ttl time.Duration, renew func(context.Context) (time.Time, error), release func(context.Context) error) *lease {
	l := &lease{claim: newClaim(), stop: make(chan struct{}), release: release}
	l.keeping.Go(func() { l.keep(until, ttl, renew) })
	return l
}

func (l *lease) keep(until time.Time, ttl time.Duration, renew func(context.Context) (time.Time, error)) {
	type answer struct {
		until time.Time
		err   error
	}
	answers := make(chan answer, 1)
	ctx, cancel := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	end := time.NewTimer(time.Until(until))
	defer end.Stop()
	next := time.NewTimer(ttl / 3)
	defer next.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-end.C:
			l.end(history.Deadline)
			return
		case <-next.C:
			asking.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, ttl/4)
				defer cancel()
				until, err := renew(ctx)
				answers <- answer{until, err}
			})
		case a := <-answers:
			switch {
			case errors.Is(a.err, errGone):
				l.end(history.Expired)
				return
			case a.err == nil:
				until = a.until
				end.Reset(time.Until(until))
				next.Reset(ttl / 3)
			default:
				next.Reset(ttl / 20)
			}
		}
	}
}

// Release stops the renewal and deletes the key. If the end of the client has done so, it returns the result of that.
func (l *lease) Release(ctx context.Context) error {
	l.giving.Store(true)
	err := l.free(ctx)
	l.end(history.GivenUp)
	return err
}

func (l *lease) free(ctx context.Context) error {
	l.freeing.Do(func() {
		close(l.stop)
		l.keeping.Wait()
		l.freed = l.release(ctx)
	})
	return l.freed
}

// another reports, after a failed attempt, whether to make another one, and waits before it. An outage does not end the
// attempts: a client that needs a lock retries, and an attempt that ended with each error would split a long wait into many.
func another(ctx context.Context, how string, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case how == "try" && err == nil:
		return worker.ErrHeld
	case how == "try":
		return err
	}
	// "after a random delay", says Redis's description: clients that retry in step collide.
	select {
	case <-time.After(20*time.Millisecond + rand.N(80*time.Millisecond)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A tenant is the common part of clients whose holds are leases.
type tenant struct{ last *lease }

func (t *tenant) has(l *lease) *lease {
	t.last = l
	return l
}

// leave releases the hold, while there is still a connection. Its holder, which has not asked for that, is notified before
// another client can have it.
func (t *tenant) leave() {
	if t.last == nil {
		return
	}
	t.last.end(history.ClientShut)
	_ = t.last.free(context.Background()) // Release returns the error to its caller; and the key expires
}
