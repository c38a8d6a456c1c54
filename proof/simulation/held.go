// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

// A held is a lease that a caller was granted, until the end of its validity by the caller's clock.
type held struct {
	caller  *Caller
	by      history.Event
	call    Call
	id      string         // of the request that was granted
	tickets []lease.Ticket // one for each request that was granted the lease
	token   fencing.Token
	renewed int           // renewals that were sent
	unknown bool          // another request may share the lease: the answer to one, or to its release, is not known
	end     time.Time     // by the newest answer; guarded by the world's mu
	moved   chan struct{} // receives when end has moved
	release chan struct{} // closed when the caller begins its last release
	over    chan struct{} // closed when the caller no longer believes that it holds the lease
	gaveUp  bool          // by its release; set before over is closed
}

// acquire asks for the lease until it is granted, and records the outcome. It returns nil if it gives up, or is refused for
// one of the reasons in expected.
func (c *Caller) acquire(call Call, expected ...error) *held {
	c.next++
	call.Path, call.TTL = cmp.Or(call.Path, lockPath), cmp.Or(call.TTL, c.world.opts.Timeout)
	call.owner = fmt.Sprintf("%s %d", c.name, c.next)
	h := &held{
		caller: c, call: call, id: fmt.Sprint(c.next), moved: make(chan struct{}, 1), release: make(chan struct{}), over: make(chan struct{}),
		by: history.Event{Contender: c.name, Attempt: c.world.recorder.NextAttempt(), Path: call.Path},
	}
	c.record(h.by, history.Asked, "lease")
	grant, end, err := c.ask(call, h.id, expected)
	if err != nil {
		failed := h.by
		failed.Error = err.Error()
		c.record(failed, history.Failed, "")
		return nil
	}
	h.tickets, h.end, h.token = []lease.Ticket{grant.Ticket}, end, grant.Token
	granted := h.by
	granted.Node, granted.Token = call.Path+"/"+grant.Ticket.Node, history.ID(h.token)
	granted.Deadline = c.world.recorder.Since(end.Add(grant.Valid - slow(grant.Valid)))
	c.record(granted, history.Granted, "")
	c.world.calling.Go(h.believe)
	return h
}

// use acquires a lease, works under it, and releases it, all as the call has it. It reports whether the lease was granted.
func (c *Caller) use(call Call) (granted bool) {
	h := c.acquire(call, lease.ErrRevoked)
	if h == nil {
		return false
	}
	if call.Again > 0 {
		h.work(call.Again, false)
		h.repeat()
	}
	if call.Reentrant {
		h.enter()
	}
	h.work(call.Hold, call.Renew > 0)
	if call.Forget {
		<-h.over
		return true
	}
	for len(h.tickets) > 1 {
		h.giveUp(false, call.Lost)
	}
	h.giveUp(true, call.Lost)
	return true
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

// work writes to the registers for d, or while the caller believes that it holds the lease, and renews the lease at
// intervals if renew is set. At the end it writes once more to the fenced register.
func (h *held) work(d time.Duration, renew bool) {
	if h == nil {
		return
	}
	w := h.caller.world
	fenced, bare := w.register(h.call.Path, "", true), w.register(h.call.Path, "", false)
	every := cmp.Or(h.call.Every, h.call.TTL/3)
	due := time.Now().Add(every)
	for began := time.Now(); h.believes() && time.Since(began) < d; {
		fenced.write(h.by, h.token)
		bare.write(h.by, h.token)
		if renew && time.Now().After(due) {
			due = time.Now().Add(every)
			ticket, replica := h.tickets[0], h.renewedAt()
			w.calling.Go(func() { _ = h.renew(ticket, replica, cmp.Or(h.call.Renew, h.call.TTL)) })
		}
		select {
		case <-time.After(min(d-time.Since(began), h.call.TTL/16)):
		case <-h.over:
		}
	}
	fenced.write(h.by, h.token)
}

// renewedAt returns the replica for the next renewal: first the call's last one, and then the others in turn.
func (h *held) renewedAt() string {
	replicas := h.call.Replicas
	h.renewed++
	return replicas[(len(replicas)+h.renewed-2)%len(replicas)]
}

// renew renews the lease. The answer that it has ended must be true: the names of leases do not recur.
func (h *held) renew(ticket lease.Ticket, replica string, ttl time.Duration) error {
	sent := time.Now()
	grant, err := send(h.caller.world, delivery{replica: replica, patience: ttl, flight: h.call.Flight},
		func(ctx context.Context, r *lease.Replica, received time.Time) (lease.Grant, error) {
			return r.Renew(ctx, received, ticket, ttl)
		})
	if err == nil {
		h.extend(sent.Add(slow(grant.Valid)))
	}
	if _, _, missing := h.caller.world.ensemble.Get(h.call.Path + "/" + ticket.Node); errors.Is(err, lease.ErrGone) && missing == nil {
		h.caller.world.problemf("renewal of %s: %w, and its node exists", ticket.Node, err)
	}
	return err
}

// repeat sends the request of the lease again, as a caller does that lost the answer.
func (h *held) repeat() {
	if grant, end, err := h.askAgain(h.id); err == nil && grant.Token == h.token {
		h.extend(end)
	}
}

// enter has the caller share its own lease under a further request.
func (h *held) enter() {
	if h == nil {
		return
	}
	h.caller.next++
	grant, end, err := h.askAgain(fmt.Sprint(h.caller.next))
	if err != nil || grant.Token != h.token {
		h.unknown = true
		return
	}
	h.tickets = append(h.tickets, grant.Ticket)
	h.extend(end)
}

// askAgain sends a request while the lease is valid, and does not wait for another one.
func (h *held) askAgain(id string) (lease.Grant, time.Time, error) {
	call := h.call
	call.Wait, call.GiveUp = 0, max(1, time.Until(h.validUntil()))
	return h.caller.ask(call, id, []error{lease.ErrRevoked})
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
		if !h.gaveUp { // its validity has ended, and the node may still exist
			h.caller.record(h.by, history.Releasing, "")
		}
	}
	err := h.sendRelease(ticket, lost)
	if err != nil && !errors.Is(err, lease.ErrGone) {
		h.unknown = true
	}
	if last {
		released := h.by
		if h.unknown {
			released.Error = "a request that shares the lease may not have been released"
		}
		h.caller.record(released, history.Released, "")
	}
}

// sendRelease sends a release until it is answered, ten times at most.
func (h *held) sendRelease(ticket lease.Ticket, lost int) (err error) {
	for i := range 10 {
		d := delivery{replica: h.call.replica(i), patience: h.caller.world.opts.Timeout, flight: h.call.Flight}
		if i < lost {
			d.patience = deaf
		}
		_, err = send(h.caller.world, d, func(ctx context.Context, r *lease.Replica, _ time.Time) (struct{}, error) {
			return struct{}{}, r.Release(ctx, ticket)
		})
		if err == nil || errors.Is(err, lease.ErrGone) || errors.Is(err, lease.ErrRevoked) {
			return err
		}
		if !transient(err) {
			h.caller.world.problemf("release of %s: undocumented error: %w", h.caller.name, err)
		}
	}
	return err
}
