// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rivals

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// errGone is the error of a renewal when another client holds the lease, or no client does.
var errGone = errors.New("no longer ours")

// drift is what a holder subtracts from a key's time to live, as the algorithm's description and its implementations do:
// clocks run at different rates, and a server's expiry has a granularity.
//
// https://redis.io/docs/latest/develop/use/patterns/distributed-locks/ (MIN_VALIDITY, CLOCK_DRIFT)
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// A lease is a hold that lasts until an instant, unless it is renewed before. Its holder must watch the time itself: the server
// notifies no client.
type lease struct {
	*claim
	token   history.ID // 0 if the library has no tokens
	stop    chan struct{}
	keeping sync.WaitGroup
	release func(context.Context) error
	freeing sync.Once
	freed   error // what release returned; valid after freeing
}

// Grant returns the token, if the library has one.
func (l *lease) Grant() history.Event { return history.Event{Token: l.token} }

// keep returns a lease that lasts until the given instant, which renew extends every third of ttl. renew returns errGone if the
// client no longer has the lease; after other errors keep retries until the lease ends.
func keep(until time.Time, ttl time.Duration, renew func(context.Context) (time.Time, error), release func(context.Context) error) *lease {
	l := &lease{claim: newClaim(), stop: make(chan struct{}), release: release}
	l.keeping.Go(func() { l.keep(until, ttl, renew) })
	return l
}

// keep renews the lease until it is released or ends.
func (l *lease) keep(until time.Time, ttl time.Duration, renew func(context.Context) (time.Time, error)) {
	type answer struct {
		until time.Time
		err   error
	}
	answers := make(chan answer, 1)
	ctx, cancel := context.WithCancel(context.Background())
	var renewing sync.WaitGroup
	defer renewing.Wait()
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
			renewing.Go(func() {
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

// Release stops the renewal and deletes the key. If the end of the client has done so, Release returns the result of that.
func (l *lease) Release(ctx context.Context) error {
	l.releasing.Store(true)
	err := l.free(ctx)
	l.end(history.GivenUp)
	return err
}

// free stops the renewal and releases the lease, once.
func (l *lease) free(ctx context.Context) error {
	l.freeing.Do(func() {
		close(l.stop)
		l.keeping.Wait()
		l.freed = l.release(ctx)
	})
	return l.freed
}

// retry waits before the next attempt to acquire a lock, and returns nil, or returns the error with which the attempts end. An
// outage does not end them: a client that needs a lock retries, and if an attempt ended with each error, the history would
// show many short waits instead of a long one.
func retry(ctx context.Context, how string, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case how == "try" && err == nil:
		return worker.ErrHeld
	case how == "try":
		return err
	}
	// "after a random delay" (Redis's description): clients that retry at the same time collide.
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

// leave releases the last lease, while the client is still connected. It notifies the holder first, because the holder has not
// requested the release.
func (t *tenant) leave() {
	if t.last == nil {
		return
	}
	t.last.end(history.ClientShut)
	_ = t.last.free(context.Background()) // Release returns the error; the key expires
}
