// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// A Hold is one acquisition of a lock or one term of an election, from the grant until it is unlocked or lost. A hold that
// has ended stays ended. All methods are safe for concurrent use.
type Hold struct {
	client *Client
	place  place
	token  fencing.Token
	ttl    time.Duration

	state   context.Context // done when the hold has ended; its cause is why
	cancel  context.CancelCauseFunc
	running sync.WaitGroup // watch and renew

	mu        sync.Mutex // guards what follows
	lockToken string     // of the last answer: the key of an older one may be gone
	end       time.Time  // of the lease: the latest end of all answers
	failure   error      // of the last renewal; nil if it succeeded

	unlocked  sync.Once // guards unlockErr
	unlockErr error
}

// newHold returns the hold of a grant. start keeps it.
func newHold(c *Client, p place, g *grant) *Hold {
	h := &Hold{client: c, place: p, lockToken: g.LockToken, token: g.FencingToken, ttl: g.ttl(), end: g.end()}
	h.state, h.cancel = context.WithCancelCause(context.Background())
	return h
}

// start starts the goroutines that watch the deadline and renew the lease. Unlock waits for them.
func (h *Hold) start() {
	h.running.Go(h.watch)
	h.running.Go(h.renew)
}

// Token returns the fencing token, which is greater than the token of every earlier hold of the same lock.
func (h *Hold) Token() fencing.Token { return h.token }

// Done returns a channel that is closed when the hold has ended.
func (h *Hold) Done() <-chan struct{} { return h.state.Done() }

// Err returns nil while the lock is held. After the hold has ended it returns an error that matches ErrLost, and
// one of ErrDeadline, ErrReleased, LockRevoked, LockExpired, LeaseExhausted and NotLockOwner.
//
// It checks the clock: a call after the deadline itself ends the hold.
func (h *Hold) Err() error {
	h.expire()
	return h.ended()
}

// ended returns why the hold ended, nil if it has not.
func (h *Hold) ended() error {
	if cause := context.Cause(h.state); cause != nil {
		return &Error{Op: "hold", Object: h.place.String(), Err: fmt.Errorf("%w: %w", ErrLost, cause)}
	}
	return nil
}

// Context returns a copy of parent that is done when parent is, or when the hold ends; context.Cause then returns the same
// error as Err. Call the function when the context is no longer needed.
func (h *Hold) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	if err := h.Err(); err != nil {
		cancel(err)
	}
	stop := context.AfterFunc(h.state, func() { cancel(h.ended()) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// Deadline returns the instant at which the hold ends unless it is renewed: an eighth of the TTL before ValidUntil.
func (h *Hold) Deadline() time.Time { return h.ValidUntil().Add(-margin(h.ttl)) }

// ValidUntil returns the instant before which no other client is granted the lock. The time from Deadline to it is for work
// that has to be stopped.
func (h *Hold) ValidUntil() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.end
}

// margin returns how long before the end of its lease a hold ends.
func margin(ttl time.Duration) time.Duration { return ttl / 8 }

// left returns the time from now until end. The monotonic clock stands still while the machine is suspended; the wall clock
// does not. The clock by which more time has passed counts: a step of the wall clock can end a hold early, never late.
func left(end, now time.Time) time.Duration {
	return min(end.Sub(now), end.Round(0).Sub(now.Round(0)))
}

// expire ends the hold if its deadline has passed. It returns the time until then.
func (h *Hold) expire() time.Duration {
	rest := left(h.Deadline(), h.client.now())
	if rest <= 0 {
		h.cancel(h.late())
	}
	return rest
}

// late returns ErrDeadline, with the failure of the last renewal.
func (h *Hold) late() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failure == nil {
		return ErrDeadline
	}
	return fmt.Errorf("%w: %w", ErrDeadline, h.failure)
}

// watch ends the hold at its deadline, whatever a renewal waits for. Timers stand still while the machine is suspended: it reads
// the clocks often, to end the hold soon after the machine resumes.
func (h *Hold) watch() {
	for sleep(h.state, min(h.expire(), h.ttl/24, time.Second)) {
	}
}

// renew renews the lease after each third of it, until the hold has ended.
func (h *Hold) renew() {
	b := h.client.backoff(h.ttl / 16)
	wait := h.third()
	for sleep(h.state, wait) {
		g, n := &grant{sent: time.Now()}, h.client.current.Load()
		_, err := h.client.exchange(h.state, http.MethodPost, h.place.path("renew"), min(h.ttl/4, 5*time.Second), h.proof(h.client.ttl), g)
		switch {
		case err == nil:
			b.reset()
			h.extend(g)
			wait = h.third()
		case endsLease(err):
			h.cancel(err)
			return
		default:
			// A definite refusal of another kind does not end the lease: its cause may pass before the deadline does, and another
			// replica may still know the caller.
			if !canceled(h.state) {
				h.client.current.CompareAndSwap(n, n+1)
			}
			h.fail(err)
			wait = max(b.after(err), time.Millisecond)
		}
	}
}

// endsLease reports whether a refused renewal or release shows that the lease has ended.
func endsLease(err error) bool {
	var p *Problem
	return errors.As(err, &p) && (p.Status == http.StatusGone || p.Code == NotLockOwner)
}

// third returns the time until the next renewal.
func (h *Hold) third() time.Duration { return min(h.ttl, left(h.ValidUntil(), time.Now())) / 3 }

// extend takes the answer to a renewal, which moves the end of the lease. An answer that is late moves it less, and never back.
func (h *Hold) extend(g *grant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failure = nil
	h.lockToken = cmp.Or(g.LockToken, h.lockToken)
	if end := g.end(); end.After(h.end) {
		h.end = end
	}
}

// fail records why a renewal failed.
func (h *Hold) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failure = err
}

// A proof is the body of renew and release.
type proof struct {
	OwnerID   string `json:"ownerId"`
	LockToken string `json:"lockToken"`
	TTLMillis int64  `json:"ttlMillis,omitempty"`
}

// proof returns what the holder presents. A release has no TTL.
func (h *Hold) proof(ttl time.Duration) proof {
	h.mu.Lock()
	defer h.mu.Unlock()
	return proof{OwnerID: h.client.owner, LockToken: h.lockToken, TTLMillis: ttl.Milliseconds()}
}

// Unlock releases the lock. It closes Done first, waits for the hold's goroutines, and then asks the service.
//
// It works even if ctx is done, so that it can be deferred: it is bounded by 5 s and not by ctx. It returns nil if the lock
// was held until then and is free now; ErrLost, with the cause, if it had been lost before; ErrUncertain if no replica
// confirmed the release, in which case the lock is free when the lease ends. A second call returns the result of the first.
func (h *Hold) Unlock(ctx context.Context) error {
	h.unlocked.Do(func() {
		h.expire()
		h.cancel(ErrReleased) // has no effect if the hold was lost
		h.running.Wait()
		lost := !errors.Is(context.Cause(h.state), ErrReleased)
		bound := releaseTimeout
		if lost {
			bound = time.Second // the release only lets the next waiter in sooner
		}
		err := h.client.release(ctx, h, bound)
		h.client.remove(h)
		switch {
		case lost:
			h.unlockErr = h.ended()
		case endsLease(err):
			h.unlockErr = &Error{Op: "unlock", Object: h.place.String(), Err: fmt.Errorf("%w: %w", ErrLost, err)}
		case err != nil:
			h.unlockErr = &Error{Op: "unlock", Object: h.place.String(), Err: err}
		}
	})
	return h.unlockErr
}

// release asks the service to release a hold that has ended, until it is released or its lease has ended, for bound at most. It
// repeats a request whose caller was refused: another replica may still know the caller.
func (c *Client) release(ctx context.Context, h *Hold, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
	defer cancel()
	operation := "release"
	if h.place.kind == "elections" {
		operation = "resign"
	}
	b := c.backoff(time.Second)
	repeated := false
	for {
		n := c.current.Load()
		_, err := c.exchange(ctx, http.MethodPost, h.place.path(operation), c.share(ctx, releaseTimeout/2), h.proof(0), nil)
		switch {
		case err == nil, repeated && errors.Is(err, LockExpired), errors.Is(err, LockReleased):
			return nil // an earlier request whose answer was lost has released it
		case endsLease(err):
			return err
		}
		c.current.CompareAndSwap(n, n+1)
		repeated = repeated || !unsent(err) && !definite(err)
		if !sleep(ctx, b.after(err)) {
			return fmt.Errorf("%w: %w", ErrUncertain, err)
		}
	}
}

// A grant is the answer to acquire, campaign and renew, with the time before the request was sent. A 202 has only
// RetryAfterMillis.
type grant struct {
	LockToken        string        `json:"lockToken"`
	FencingToken     fencing.Token `json:"fencingToken"`
	TTLMillis        int64         `json:"ttlMillis"`
	ValidMillis      int64         `json:"validMillis"`
	RetryAfterMillis int64         `json:"retryAfterMillis"`

	sent time.Time
}

func (g *grant) ttl() time.Duration { return time.Duration(g.TTLMillis) * time.Millisecond }

// end returns when the lease ends.
func (g *grant) end() time.Time { return g.sent.Add(time.Duration(g.ValidMillis) * time.Millisecond) }
