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

// errGone is what a renewal returns when somebody else has what is to be renewed, or nobody.
var errGone = errors.New("no longer ours")

// drift is what a holder takes off the time for which a server keeps a key, as the algorithm's description and its
// implementations do: clocks run at different rates, and a server's expiry has a granularity.
//
// https://redis.io/docs/latest/develop/use/patterns/distributed-locks/ (MIN_VALIDITY, CLOCK_DRIFT)
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// A lease is a hold that lasts until an instant, and is put off before. All of it is what its holder must do by itself:
// the server that keeps it tells nobody.
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

// keep holds until the instant until, which renew puts off, every third of ttl. Renew returns errGone when there is nothing
// to be renewed; other errors are tried again, as long as there is time.
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

// GiveUp stops putting it off, and has the server forget it. Where the client's end has done so, it returns what came of that.
func (l *lease) GiveUp(ctx context.Context) error {
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

// another says, after a try that came to nothing, whether there is to be another one, and waits before it. An outage is no
// end: who needs a lock goes on asking, and an ask that ended with each error would make many short waits of a long one.
func another(ctx context.Context, how string, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case how == "try" && err == nil:
		return worker.ErrHeld
	case how == "try":
		return err
	}
	// "after a random delay", says Redis's description: who tries in step gets in each other's way.
	select {
	case <-time.After(20*time.Millisecond + rand.N(80*time.Millisecond)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A tenant is what clients have in common whose holds are leases.
type tenant struct{ last *lease }

func (t *tenant) has(l *lease) *lease {
	t.last = l
	return l
}

// leave gives up what is held, while there is still a connection to do it with. Its holder, who has not asked for that, is
// told before anybody else can have it.
func (t *tenant) leave() {
	if t.last == nil {
		return
	}
	t.last.end(history.ClientShut)
	_ = t.last.free(context.Background()) // GiveUp returns it to whoever asks; and the key expires
}
