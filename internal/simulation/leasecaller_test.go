// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lease"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A leaseCaller is an HTTP client of the lock service: it sends each request to any replica,
// perhaps to two, perhaps hangs up, and repeats it with the same request id until it is answered.
type leaseCaller struct {
	world *leaseWorld
	name  string
	rng   *rand.Rand
}

// An answer is what a replica answered to a request that was sent at that instant.
type answer struct {
	grant lease.Grant
	err   error
	sent  time.Time
}

// ends returns the end of a grant on a clock that is slower by 1/64.
func (a answer) ends() time.Time {
	return a.sent.Add(a.grant.Valid + a.grant.Valid/64 - time.Millisecond)
}

// send sends one request, whose answer arrives on answers. The caller hangs up after patience, if
// that is not 0: then it gets no answer.
func (c *leaseCaller) send(r *leaseReplica, patience time.Duration, answers chan<- answer, request func(ctx context.Context, received time.Time) (lease.Grant, error)) {
	there, back := c.world.flight(c.rng), c.world.flight(c.rng)
	sent := time.Now()
	c.world.working.Go(func() {
		ctx, cancel := context.WithCancel(r.ctx)
		defer cancel()
		if patience > 0 {
			time.AfterFunc(patience, cancel)
		}
		time.Sleep(there)
		received := time.Now()
		g, err := request(ctx, received)
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", lease.ErrUncertain, ctx.Err()) // the connection has ended
		}
		time.Sleep(back)
		answers <- answer{g, err, sent}
	})
}

// ask acquires a lease, and returns the first grant that arrives while it is valid. The answers to
// duplicates arrive later.
func (c *leaseCaller) ask(req lease.Request) (granted answer, duplicates <-chan answer, ok bool) {
	answers := make(chan answer, 64)
	acquire := func(r *leaseReplica) func(context.Context, time.Time) (lease.Grant, error) {
		return func(ctx context.Context, received time.Time) (lease.Grant, error) {
			return r.Acquire(ctx, received, req)
		}
	}
	for range 30 {
		var patience time.Duration
		if c.rng.IntN(4) == 0 {
			patience = time.Duration(c.rng.Int64N(int64(3 * time.Second)))
		}
		r := c.world.replica(c.rng)
		c.send(r, patience, answers, acquire(r))
		pending := 1
		if c.rng.IntN(3) == 0 {
			time.Sleep(time.Duration(c.rng.Int64N(int64(2 * time.Second))))
			r = c.world.replica(c.rng)
			c.send(r, 0, answers, acquire(r))
			pending++
		}
		for ; pending > 0; pending-- {
			a := <-answers
			if a.err == nil && time.Now().Before(a.ends()) {
				return a, answers, true
			}
			c.expect(a.err, "acquire")
		}
		time.Sleep(time.Duration(c.rng.Int64N(int64(time.Second))))
	}
	return answer{}, nil, false
}

// expected are the errors that a caller may get without a fault of its own.
var expectedOfLeases = []error{lease.ErrUncertain, lease.ErrSuperseded, lease.ErrGone, lease.ErrReleased, lease.ErrRevoked, recipes.ErrClosed}

func (c *leaseCaller) expect(err error, op string) {
	var held *lease.HeldError
	var waits *lease.WaitingError
	switch {
	case err == nil, errors.As(err, &held), errors.As(err, &waits):
	case slices.ContainsFunc(expectedOfLeases, func(e error) bool { return errors.Is(err, e) }):
	default:
		c.world.history.problemf("%s: %s: undocumented error: %v", c.name, op, err)
	}
}

// use acquires a lease, holds and renews it, and releases it or disappears.
func (c *leaseCaller) use(n int) {
	req := lease.Request{
		Path: leasePath, Principal: "p", Owner: c.name, RequestID: fmt.Sprint(n), TTL: c.ttl(),
		Wait: time.Duration(c.rng.Int64N(int64(25 * time.Second))), Reentrant: c.rng.IntN(3) == 0,
	}
	got, duplicates, ok := c.ask(req)
	if !ok {
		return
	}
	u := c.world.history.begin(c.name, got.grant.Ticket.Node, int64(got.grant.Token), got.ends())
	if c.rng.IntN(3) == 0 { // the answer is lost on the way to the program, which asks again
		time.Sleep(time.Duration(c.rng.Int64N(int64(got.grant.TTL))))
		if again, _, ok := c.ask(req); ok && again.grant.Token == got.grant.Token {
			c.world.history.extend(u, again.ends())
		}
	}
	tickets := []lease.Ticket{got.grant.Ticket}
	if req.Reentrant {
		inner := req
		inner.RequestID, inner.Wait = req.RequestID+" inner", 0
		if a, _, ok := c.ask(inner); ok && a.grant.Token == got.grant.Token {
			tickets = append(tickets, a.grant.Ticket)
			c.world.history.extend(u, a.ends())
		}
	}
	c.hold(u, got.grant, duplicates)
	c.world.history.stop(u)
	if c.rng.IntN(4) == 0 {
		return // it crashes, or forgets
	}
	c.release(tickets)
}

// ttl draws a TTL. Short ones make the margins narrow.
func (c *leaseCaller) ttl() time.Duration {
	return time.Second + time.Duration(c.rng.Int64N(int64(3*time.Second)))
}

// hold renews the lease a few times, until its end at the latest.
func (c *leaseCaller) hold(u *leaseUse, g lease.Grant, duplicates <-chan answer) {
	answers := make(chan answer, 64)
	renewals := c.rng.IntN(4)
	for {
		left := time.Until(u.until)
		if left <= 0 || renewals == 0 && c.rng.IntN(2) == 0 {
			return
		}
		timer := time.NewTimer(min(left, time.Duration(c.rng.Int64N(int64(g.TTL)))+time.Millisecond))
		select {
		case a := <-duplicates:
			if a.err == nil && a.grant.Token == g.Token {
				c.world.history.extend(u, a.ends())
			}
		case a := <-answers:
			if a.err == nil {
				c.world.history.extend(u, a.ends())
			}
			c.expect(a.err, "renew")
		case <-timer.C:
		}
		timer.Stop()
		if renewals > 0 && time.Now().Before(u.until) {
			renewals--
			r, ttl := c.world.replica(c.rng), c.ttl()
			c.send(r, 0, answers, func(ctx context.Context, received time.Time) (lease.Grant, error) {
				return r.Renew(ctx, received, g.Ticket, ttl)
			})
		}
	}
}

// release releases the tickets, each until the answer is known. Then no other request has part in
// the lease that only these shared.
func (c *leaseCaller) release(tickets []lease.Ticket) {
	var gone []string
	for _, t := range tickets {
		answers := make(chan answer, 64)
		for range 20 {
			r := c.world.replica(c.rng)
			c.send(r, 0, answers, func(ctx context.Context, _ time.Time) (lease.Grant, error) {
				return lease.Grant{}, r.Release(ctx, t)
			})
			a := <-answers
			c.expect(a.err, "release")
			if a.err == nil || errors.Is(a.err, lease.ErrGone) {
				gone = append(gone, t.Request)
				break
			}
		}
	}
	if left := c.world.history.requests(tickets[0].Node); len(left) > 0 && !slices.ContainsFunc(left, func(r string) bool { return !slices.Contains(gone, r) }) {
		c.world.history.problemf("%s: all requests of %s are released, and it still exists", c.name, tickets[0].Node)
	}
}

// contend claims the lock with the library, again and again.
func (w *leaseWorld) contend(rng *rand.Rand, client *recipes.Client, until time.Time) {
	queue, err := recipes.NewQueue(client, leasePath, nil)
	if err != nil {
		w.history.problemf("queue: %v", err)
		return
	}
	for time.Now().Before(until) {
		time.Sleep(time.Duration(rng.Int64N(int64(6 * time.Second))))
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		claim, err := queue.Claim(ctx)
		cancel()
		if err != nil {
			continue
		}
		// The claim ends earlier than this on its own clock if it is lost.
		u := w.history.begin("library", claim.Path(), int64(claim.Token()), time.Now().Add(time.Hour))
		select {
		case <-claim.Done():
		case <-time.After(time.Duration(rng.Int64N(int64(3 * time.Second)))):
		}
		w.history.stop(u)
		_ = queue.Release(context.Background(), claim)
	}
}

// administrate revokes the front now and then.
func (w *leaseWorld) administrate(rng *rand.Rand, until time.Time) {
	for time.Now().Before(until) {
		time.Sleep(time.Duration(rng.Int64N(int64(12 * time.Second))))
		r := w.replica(rng)
		status, err := r.Status(r.ctx, leasePath)
		if err != nil || len(status.Contenders) == 0 {
			continue
		}
		_, _ = r.ForceRelease(r.ctx, lease.Force{Path: leasePath, Token: status.Contenders[0].Token, By: "admin", Reason: "test"})
	}
}

// A leaseReplica is one replica, until it crashes.
type leaseReplica struct {
	*lease.Replica
	client *recipes.Client
	ctx    context.Context // of its callers' connections
	cancel context.CancelFunc
	once   sync.Once
}
