// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// tick is how often the replica looks for waiters to renew: those that are due at the same
// tick travel together.
const tick = time.Second

// A waiter is a node that a call waits with, and that the replica renews.
type waiter struct {
	requests *Requests
	lost     chan struct{} // closed when a renewal has failed

	// Guarded by waiters.mu until remove has returned.
	own     Contender // as it was written last
	kept    time.Time // as in state
	due     time.Time
	renewed chan struct{} // closed when the renewal in progress has been answered; nil if none is
	err     error         // why the last renewal failed
}

// waiters are the waiters of a replica. One goroutine renews all of them.
type waiters struct {
	replica *Replica
	running sync.WaitGroup

	mu     sync.Mutex // guards what follows
	all    map[*waiter]struct{}
	active bool // the goroutine runs
	closed bool
}

func newWaiters(r *Replica) *waiters { return &waiters{replica: r, all: make(map[*waiter]struct{})} }

// add begins to renew a node that was written a moment ago, and which no observer deletes before kept.
func (ws *waiters) add(requests *Requests, own Contender, kept time.Time) *waiter {
	w := &waiter{requests: requests, lost: make(chan struct{}), own: own, kept: kept, due: time.Now().Add(renewEvery)}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.all[w] = struct{}{}
	if !ws.active && !ws.closed {
		ws.active = true
		ws.running.Go(ws.run)
	}
	return w
}

// remove ends the renewals of a node, and returns the contender as it was written last. It
// waits for the answer to the renewal in progress, which comes within T/2.
func (ws *waiters) remove(w *waiter) Contender {
	ws.mu.Lock()
	delete(ws.all, w)
	renewed := w.renewed
	ws.mu.Unlock()
	if renewed != nil {
		<-renewed
	}
	return w.own
}

func (ws *waiters) close() {
	ws.mu.Lock()
	ws.closed = true
	ws.mu.Unlock()
	ws.running.Wait()
}

// contenders returns the waiters as they were written last.
func (ws *waiters) contenders() []Contender {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	all := make([]Contender, 0, len(ws.all))
	for w := range ws.all {
		all = append(all, w.own)
	}
	return all
}

// run renews the waiters that are due, until there is none or the replica is closed.
func (ws *waiters) run() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ws.replica.ctx.Done():
			return
		}
		due, over := ws.due(time.Now())
		if over {
			return
		}
		ctx, cancel := context.WithTimeout(ws.replica.ctx, ws.replica.client.SessionTimeout()/2)
		for batch := range slices.Chunk(due, maxBatch) {
			ws.renew(ctx, ws.begin(batch))
		}
		cancel()
	}
}

// due returns the waiters that are due. over reports that there are no waiters at all, and that
// the goroutine ends.
func (ws *waiters) due(now time.Time) (due []*waiter, over bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(ws.all) == 0 {
		ws.active = false
		return nil, true
	}
	for w := range ws.all {
		if w.err == nil && !w.due.After(now) {
			due = append(due, w)
		}
	}
	return due, false
}

// begin returns those of the waiters that were not removed meanwhile. From now on, remove waits for the answer to their renewal.
func (ws *waiters) begin(due []*waiter) []*waiter {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	due = slices.DeleteFunc(due, func(w *waiter) bool {
		_, waits := ws.all[w]
		return !waits
	})
	for _, w := range due {
		w.renewed = make(chan struct{})
	}
	return due
}

// renew writes the waiters again, and wakes those whose write failed.
func (ws *waiters) renew(ctx context.Context, due []*waiter) {
	writes := make([]*Write, len(due))
	for i, w := range due {
		l := *w.own.Lease
		l.Write = newID()
		writes[i] = &Write{Requests: w.requests, Contender: w.own, Lease: l}
	}
	sent := time.Now()
	WriteAll(ctx, writes)
	now := time.Now()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for i, w := range due {
		w.due = now.Add(renewEvery)
		switch err := writes[i].Err; {
		case err == nil:
			w.own, w.kept = writes[i].Contender, sent.Add(writes[i].Lease.TTL)
		case errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrUncertain):
			w.due = now // not sent: if all of these asked again, a slow ensemble would be slower still
		default:
			w.err = err
			close(w.lost)
		}
		close(w.renewed)
		w.renewed = nil
	}
}
