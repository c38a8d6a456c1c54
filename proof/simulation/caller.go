// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Caller is a program without a session, which asks replicas for a lease. It is one contender
// of the history, and each of its acquisitions is one attempt, however often it sends the request.
type Caller struct {
	world *World
	name  string
	next  int // numbers its requests
}

// A Call is one acquisition of a lease, and how the caller and its network behave.
type Call struct {
	Path      string        // of the lock; empty: lockPath
	owner     string        // of the lease: another one in each acquisition, so that none joins a lease that was not released
	TTL, Wait time.Duration // of the request; TTL 0: T
	Reentrant bool

	// Replicas are asked one after the other, and then the last one again.
	Replicas []string
	// Patience is how long the caller waits for each of the first answers before it sends the request again. For later
	// answers it waits T longer than for the lock.
	Patience []time.Duration
	// HangUp is how long after the end of its patience the handler learns that the caller has gone; 0: never.
	HangUp time.Duration
	// Silent is how long the caller waits before it sends the request again.
	Silent time.Duration
	// GiveUp is how long the caller tries; 0: patience.
	GiveUp time.Duration
	// Duplicate is when the network delivers each request to the next replica too, after it was sent; 0: never. The caller
	// receives no answer to it.
	Duplicate time.Duration
	// Flight is the latency of requests and answers; 0: that between the replica and the servers.
	Flight time.Duration

	// Hold is how long the caller works under the lease, and Again how long before it, until the caller repeats its request.
	Hold, Again time.Duration
	// Renew is the TTL that renewals ask for, and Every the time between them; 0: the TTL, and a third of it.
	Renew, Every time.Duration
	// Lost is how many of the first answers to each release the network loses.
	Lost int
	// Forget has the caller end its work without a release.
	Forget bool
}

// caller returns a new caller.
func (w *World) caller(name string) *Caller { return &Caller{world: w, name: name} }

// slow returns what a clock that is slow by 1/64 takes for d: the callers of the simulation have such clocks, and the
// observers do not.
func slow(d time.Duration) time.Duration { return d + d/64 }

// deaf is the patience of a caller whose answer is lost.
const deaf = time.Nanosecond

// errNoAnswer reports that a caller's patience has ended, or that the replica has crashed.
var errNoAnswer = errors.New("no answer")

// A delivery is one request to a replica, and how the network treats it.
type delivery struct {
	replica  string
	patience time.Duration
	hangUp   time.Duration // after the patience; 0: never
	flight   time.Duration // 0: the latency of the replica
}

// send has a replica handle a request, and returns when the answer arrives or the patience ends. The handler then goes on. A
// replica that is paused answers when it wakes; one that has crashed answers nothing.
func send[T any](w *World, d delivery, handle func(ctx context.Context, r *lease.Replica, received time.Time) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	p := w.replica(d.replica)
	answer := make(chan result, 1)
	ctx, cancel := context.WithCancel(p.ctx)
	flight := cmp.Or(d.flight, p.latency)
	p.working.Go(func() {
		defer cancel()
		time.Sleep(flight)
		if p.replica == nil || !p.waitRunning() {
			return
		}
		value, err := handle(ctx, p.replica, time.Now())
		if !p.waitRunning() {
			return
		}
		time.Sleep(flight)
		answer <- result{value, err}
	})
	timer := time.NewTimer(d.patience)
	defer timer.Stop()
	var none T
	select {
	case a := <-answer:
		return a.value, a.err
	case <-p.ctx.Done():
		return none, errNoAnswer
	case <-timer.C:
	}
	if d.hangUp > 0 {
		p.working.Go(func() {
			select {
			case <-time.After(d.hangUp):
				cancel()
			case <-ctx.Done():
			}
		})
	}
	return none, errNoAnswer
}

// ask sends a request until it is answered with a grant that is still valid, or refused.
func (c *Caller) ask(call Call, id string, expected []error) (grant lease.Grant, end time.Time, err error) {
	until := time.Now().Add(cmp.Or(call.GiveUp, patience))
	wait := time.Now().Add(call.Wait)
	for i := 0; ; i++ {
		request := lease.Request{
			Path: call.Path, Owner: call.owner, RequestID: id, TTL: call.TTL, Reentrant: call.Reentrant, Wait: max(0, time.Until(wait)),
		}
		sent := time.Now()
		grant, err = c.send(call, i, request)
		if err == nil {
			if end = sent.Add(slow(grant.Valid)); end.After(time.Now()) {
				return grant, end, nil
			}
			err = errNoAnswer
		}
		if slices.ContainsFunc(expected, func(e error) bool { return errors.Is(err, e) }) || time.Now().After(until) {
			return grant, end, err
		}
		var waiting *lease.WaitingError
		var held *lease.HeldError
		switch {
		case errors.As(err, &waiting):
		case errors.As(err, &held):
			if call.Wait == 0 || time.Now().After(wait) {
				return grant, end, err
			}
		case transient(err):
			time.Sleep(max(call.Silent, c.world.fraction(16)))
		default:
			c.world.problemf("acquire of %s: undocumented error: %w", c.name, err)
			return grant, end, err
		}
	}
}

// transient reports whether a caller sends its request again after that error.
func transient(err error) bool {
	return slices.ContainsFunc([]error{errNoAnswer, lease.ErrUncertain, lease.ErrSuperseded, recipes.ErrClosed, context.Canceled}, func(e error) bool {
		return errors.Is(err, e)
	})
}

// send sends a request for the i-th time.
func (c *Caller) send(call Call, i int, request lease.Request) (lease.Grant, error) {
	acquire := func(ctx context.Context, r *lease.Replica, received time.Time) (lease.Grant, error) {
		return r.Acquire(ctx, received, request)
	}
	d := delivery{call.replica(i), request.Wait + c.world.opts.Timeout, call.HangUp, call.Flight}
	if i < len(call.Patience) {
		d.patience = call.Patience[i]
	}
	if call.Duplicate > 0 {
		c.world.calling.Go(func() {
			time.Sleep(call.Duplicate)
			_, _ = send(c.world, delivery{call.replica(i + 1), d.patience, call.HangUp, call.Flight}, acquire)
		})
	}
	return send(c.world, d, acquire)
}

// replica returns the replica that is asked for the i-th time.
func (c *Call) replica(i int) string { return c.Replicas[min(i, len(c.Replicas)-1)] }

// record adds an event of the caller to the history.
func (c *Caller) record(e history.Event, kind history.Kind, text string) {
	e.Kind, e.Text = kind, text
	c.world.recorder.Add(e)
}

// patience bounds, in fake time, what is left to do after all faults are healed.
const patience = 5 * time.Minute
