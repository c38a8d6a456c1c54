// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/lease"
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
	TTL, Wait time.Duration // of the request; TTL 0: T
	Reentrant bool

	// Replicas are asked one after the other, and then the last one again.
	Replicas []*Process
	// Patience is how long the caller waits for an answer before it sends the request again; 0: T more than Wait.
	Patience time.Duration
	// HangUp is how long after the end of its patience the handler learns that the caller has gone; 0: never.
	HangUp time.Duration
	// Lost is how many of the first answers the network loses.
	Lost int
	// Silent is how long the caller waits before it sends the request again.
	Silent time.Duration
	// GiveUp is how long the caller tries; 0: patience.
	GiveUp time.Duration
}

// caller returns a new caller.
func (w *World) caller(name string) *Caller { return &Caller{world: w, name: name} }

// slow returns what a clock that is slow by 1/64 takes for d: the callers of the simulation have such clocks, and the
// observers do not.
func slow(d time.Duration) time.Duration { return d + d/64 }

// deaf is the patience of a caller whose answer is lost.
const deaf = time.Nanosecond

// errNoAnswer reports that a caller's patience has ended.
var errNoAnswer = errors.New("no answer")

// send has a replica handle a request, and returns when the answer arrives or the patience ends. The handler then goes on. A
// replica that is paused answers when it wakes; one that has crashed answers nothing.
func send[T any](p *Process, patience, hangUp time.Duration, handle func(ctx context.Context, r *lease.Replica, received time.Time) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	answer := make(chan result, 1)
	ctx, cancel := context.WithCancel(context.Background())
	p.working.Go(func() {
		defer cancel()
		time.Sleep(p.latency)
		if p.replica == nil || !p.waitRunning() {
			return
		}
		value, err := handle(ctx, p.replica, time.Now())
		if !p.waitRunning() {
			return
		}
		time.Sleep(p.latency)
		answer <- result{value, err}
	})
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case a := <-answer:
		return a.value, a.err
	case <-timer.C:
	}
	if hangUp > 0 {
		p.working.Go(func() {
			select {
			case <-time.After(hangUp):
				cancel()
			case <-ctx.Done():
			}
		})
	}
	var none T
	return none, errNoAnswer
}

// A held is a lease that a caller was granted, until the end of its validity by the caller's clock.
type held struct {
	caller  *Caller
	by      history.Event
	call    Call
	tickets []lease.Ticket // one for each request that was granted the lease
	token   fencing.Token
	end     time.Time     // by the newest answer
	moved   chan struct{} // receives when end has moved
	release chan struct{} // closed when the caller begins its last release
	over    chan struct{} // closed when the caller no longer believes that it holds the lease
	gaveUp  bool          // by its release; set before over is closed
}

// acquire asks for the lease until it is granted, and records the outcome. It returns nil if it gives up, or is refused for
// one of the reasons in expected.
func (c *Caller) acquire(call Call, expected ...error) *held {
	c.next++
	h := &held{
		caller: c, call: call, moved: make(chan struct{}, 1), release: make(chan struct{}), over: make(chan struct{}),
		by: history.Event{Contender: c.name, Attempt: c.world.recorder.NextAttempt(), Path: lockPath},
	}
	c.record(h.by, history.Asked, "lease")
	grant, end, err := c.ask(call, fmt.Sprint(c.next), expected)
	if err != nil {
		failed := h.by
		failed.Error = err.Error()
		c.record(failed, history.Failed, "")
		return nil
	}
	h.tickets, h.end, h.token = []lease.Ticket{grant.Ticket}, end, grant.Token
	granted := h.by
	granted.Node, granted.Token = lockPath+"/"+grant.Ticket.Node, history.ID(h.token)
	c.record(granted, history.Granted, "")
	c.world.believing.Go(h.believe)
	return h
}

// ask sends a request until it is answered with a grant that is still valid, or refused.
func (c *Caller) ask(call Call, id string, expected []error) (grant lease.Grant, end time.Time, err error) {
	w := c.world
	until := time.Now().Add(cmp.Or(call.GiveUp, patience))
	wait := time.Now().Add(call.Wait)
	for i := 0; ; i++ {
		request := lease.Request{
			Path: lockPath, Owner: c.name, RequestID: id, TTL: cmp.Or(call.TTL, w.opts.Timeout), Reentrant: call.Reentrant,
			Wait: max(0, time.Until(wait)),
		}
		sent, patience := time.Now(), cmp.Or(call.Patience, request.Wait+w.opts.Timeout)
		if i < call.Lost {
			patience = deaf
		}
		grant, err = send(call.Replicas[min(i, len(call.Replicas)-1)], patience, call.HangUp,
			func(ctx context.Context, r *lease.Replica, received time.Time) (lease.Grant, error) {
				return r.Acquire(ctx, received, request)
			})
		if err == nil {
			if end = sent.Add(slow(grant.Valid)); end.After(time.Now()) {
				return grant, end, nil
			}
			err = errNoAnswer
		}
		for _, e := range expected {
			if errors.Is(err, e) {
				return grant, end, err
			}
		}
		if time.Now().After(until) {
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
		case errors.Is(err, errNoAnswer), errors.Is(err, lease.ErrUncertain), errors.Is(err, lease.ErrSuperseded), errors.Is(err, context.Canceled):
			time.Sleep(max(call.Silent, w.fraction(16)))
		default:
			w.problemf("acquire of %s: undocumented error: %w", c.name, err)
			return grant, end, err
		}
	}
}

// believe records the end of the lease: when its validity ends, or when the caller begins its release.
func (h *held) believe() {
	defer close(h.over)
	ended := h.by
	for {
		timer := time.NewTimer(time.Until(h.validUntil()))
		select {
		case <-timer.C:
			ended.Cause = history.Validity
		case <-h.moved:
			timer.Stop()
			continue
		case <-h.release:
			timer.Stop()
			h.caller.record(h.by, history.Releasing, "")
			h.gaveUp = true
			ended.Cause = history.GivenUp
		}
		h.caller.record(ended, history.Notified, "")
		return
	}
}

// validUntil returns the end of the validity by the answers so far.
func (h *held) validUntil() time.Time {
	h.caller.world.mu.Lock()
	defer h.caller.world.mu.Unlock()
	return h.end
}

// believes reports whether the caller believes that it holds the lease.
func (h *held) believes() bool {
	select {
	case <-h.over:
		return false
	default:
		return true
	}
}

// extend moves the end of the validity: of several answers, the latest end counts. An answer after the end is no grant.
func (h *held) extend(end time.Time) {
	h.caller.world.mu.Lock()
	if end.After(h.end) {
		h.end = end
	}
	h.caller.world.mu.Unlock()
	select {
	case h.moved <- struct{}{}:
	default:
	}
}

// work writes to the registers for d, or while the caller believes that it holds the lease, and renews the lease at each
// third of its TTL if renew is set. At the end it writes once more to the fenced register.
func (h *held) work(d time.Duration, renew bool) {
	if h == nil {
		return
	}
	w := h.caller.world
	fenced, bare := w.register(lockPath, true), w.register(lockPath, false)
	ttl := cmp.Or(h.call.TTL, w.opts.Timeout)
	due := time.Now().Add(ttl / 3)
	for began := time.Now(); h.believes() && time.Since(began) < d; {
		fenced.write(h.by, h.token)
		bare.write(h.by, h.token)
		if renew && time.Now().After(due) {
			due = time.Now().Add(ttl / 3)
			ticket := h.tickets[0]
			w.believing.Go(func() { _ = h.renew(ticket, ttl) })
		}
		select {
		case <-time.After(min(d-time.Since(began), ttl/16)):
		case <-h.over:
		}
	}
	fenced.write(h.by, h.token)
}

// renew renews the lease at the call's last replica.
func (h *held) renew(ticket lease.Ticket, ttl time.Duration) error {
	sent := time.Now()
	replica := h.call.Replicas[len(h.call.Replicas)-1]
	grant, err := send(replica, ttl/3, 0, func(ctx context.Context, r *lease.Replica, received time.Time) (lease.Grant, error) {
		return r.Renew(ctx, received, ticket, ttl)
	})
	if err == nil {
		h.extend(sent.Add(slow(grant.Valid)))
	}
	return err
}

// enter has the caller share its own lease under a further request.
func (h *held) enter() {
	if h == nil {
		return
	}
	h.caller.next++
	call := h.call
	call.GiveUp = time.Until(h.validUntil())
	grant, end, err := h.caller.ask(call, fmt.Sprint(h.caller.next), []error{lease.ErrRevoked})
	if err != nil || grant.Token != h.token {
		return
	}
	h.tickets = append(h.tickets, grant.Ticket)
	h.extend(end)
}

// giveUp releases the lease: the last of its requests, if last is set, and otherwise one that leaves it to the others. A
// release that is not answered is sent again; the first answers are lost.
func (h *held) giveUp(last bool, lost int) {
	if h == nil {
		return
	}
	ticket := h.tickets[len(h.tickets)-1]
	h.tickets = h.tickets[:len(h.tickets)-1]
	if last {
		close(h.release)
		<-h.over
	}
	for i := range 10 {
		replica := h.call.Replicas[min(i, len(h.call.Replicas)-1)]
		patience := h.caller.world.opts.Timeout
		if i < lost {
			patience = deaf
		}
		_, err := send(replica, patience, 0, func(ctx context.Context, r *lease.Replica, _ time.Time) (struct{}, error) {
			return struct{}{}, r.Release(ctx, ticket)
		})
		if err == nil || errors.Is(err, lease.ErrGone) || errors.Is(err, lease.ErrRevoked) {
			break
		}
		if !errors.Is(err, errNoAnswer) && !errors.Is(err, lease.ErrUncertain) {
			h.caller.world.problemf("release of %s: undocumented error: %w", h.caller.name, err)
		}
	}
	if last && h.gaveUp {
		h.caller.record(h.by, history.Released, "")
	}
}

// record adds an event of the caller to the history.
func (c *Caller) record(e history.Event, kind history.Kind, text string) {
	e.Kind, e.Text = kind, text
	c.world.recorder.Add(e)
}
