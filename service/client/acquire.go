// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// maxPoll is how long one request waits at the service, and maxWait the longest wait that it accepts. An answer arrives within
// answerTimeout after the wait, minAnswerTime if ctx ends then, or the replica is left for another one before the waiter's position is lost.
const (
	maxPoll       = 20 * time.Second
	maxWait       = 24 * time.Hour
	answerTimeout = 5 * time.Second
	minAnswerTime = 250 * time.Millisecond
)

// terms are the body of acquire and campaign.
type terms struct {
	OwnerID    string  `json:"ownerId"`
	RequestID  string  `json:"requestId"`
	TTLMillis  int64   `json:"ttlMillis"`
	WaitMillis int64   `json:"waitMillis"`
	Value      *string `json:"value,omitempty"`
}

// Lock waits until the lock is free and takes it. Waiters get the lock in the order in which they joined the queue.
//
// ctx bounds the wait and not the hold. While no replica gives a definite answer, Lock repeats the request until ctx is done;
// the error then matches ErrUnavailable. After an error nothing is held: Lock first withdraws a request that may have been
// carried out, and releases its grant, for 5 s at most. If no replica confirms that, the error matches ErrUncertain, and a
// lease may be held until its TTL has passed. The error of a wait that ended with the deadline of ctx, or a second before it
// at most, matches context.DeadlineExceeded, and LockAlreadyHeld if the service was reached in time: then errors.As finds the
// *Problem, which names the holder.
func (c *Client) Lock(ctx context.Context, namespace, key string) (*Hold, error) {
	return c.acquire(ctx, "lock", place{"locks", namespace, key}, true, nil)
}

// TryLock takes the lock if it is free and has no waiters. Otherwise its error matches LockAlreadyHeld. It waits for
// no other client, only for a definite answer, which ctx bounds. Its other errors are Lock's.
func (c *Client) TryLock(ctx context.Context, namespace, key string) (*Hold, error) {
	return c.acquire(ctx, "lock", place{"locks", namespace, key}, false, nil)
}

// Campaign waits until this client leads the election, and publishes value. A lock and an election of the same name exclude
// each other. Unlock resigns. The errors are Lock's.
func (c *Client) Campaign(ctx context.Context, namespace, key, value string) (*Hold, error) {
	return c.acquire(ctx, "campaign", place{"elections", namespace, key}, true, &value)
}

// Do takes the lock, runs f, and unlocks. It returns only after f has returned, so that no work outlives its lock. The context
// that f gets is done when ctx is done or the hold is lost; context.Cause returns which. The error is Lock's, in which
// case f did not run, or f's joined with Unlock's. A panic of f passes through Do after the lock was released.
func (c *Client) Do(ctx context.Context, namespace, key string, f func(ctx context.Context, hold *Hold) error) (err error) {
	hold, err := c.Lock(ctx, namespace, key)
	if err != nil {
		return err
	}
	work, cancel := hold.Context(ctx)
	defer func() {
		cancel()
		err = errors.Join(err, hold.Unlock(ctx))
	}()
	return f(work, hold)
}

// An acquisition repeats one request until it has a definite answer.
type acquisition struct {
	client  *Client
	op      string
	place   place
	terms   terms
	pending bool // a request was sent that may have left a node in the queue
	joins   bool // requests wait: a replica has answered that the lock is held, or a request that waits was sent
}

func (c *Client) acquire(ctx context.Context, op string, p place, waits bool, value *string) (*Hold, error) {
	a := &acquisition{client: c, op: op, place: p, terms: terms{
		OwnerID: c.owner, RequestID: rand.Text(), TTLMillis: c.ttl.Milliseconds(), Value: value,
	}}
	if c.closing.Err() != nil {
		return nil, &Error{Op: op, Object: p.String(), Err: ErrClosed}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.closing, func() { cancel(ErrClosed) })()
	g, err := a.await(ctx, waits)
	if err != nil {
		if a.pending {
			err = errors.Join(err, a.withdraw(ctx))
		}
		return nil, &Error{Op: op, Object: p.String(), Err: err}
	}
	h := newHold(c, p, g)
	if !c.add(h) {
		h.cancel(ErrClosed)
		return nil, &Error{Op: op, Object: p.String(), Err: errors.Join(ErrClosed, c.release(ctx, h, releaseTimeout))}
	}
	h.start()
	return h, nil
}

// await returns the grant, or the error that ended the wait.
func (a *acquisition) await(ctx context.Context, waits bool) (*grant, error) {
	b := a.client.backoff(time.Second)
	var last error // why there is no definite answer yet; nil if the service answered that the wait goes on
	for {
		if ctx.Err() != nil {
			return nil, ended(ctx, last)
		}
		wait, timeout := time.Duration(0), a.client.share(ctx, answerTimeout)
		tries := waits && a.tries(ctx)
		if waits && !tries {
			wait = waitOf(ctx)
			timeout = a.pollTimeout(ctx, wait)
		}
		g, status, err := a.send(ctx, wait, timeout)
		again := time.Duration(0)
		switch {
		case err == nil && status == http.StatusAccepted:
			b.reset()
			again, last = time.Duration(g.RetryAfterMillis)*time.Millisecond, nil
		case err == nil && left(g.end(), time.Now()) > margin(g.ttl()):
			return g, nil
		case err == nil:
			last = fmt.Errorf("the grant arrived after its end: %w", ErrDeadline)
			again = b.after(last)
		case tries && errors.Is(err, LockAlreadyHeld):
			b.reset()
			a.joins, last = true, nil
		case definite(err) && waits && errors.Is(err, LockAlreadyHeld):
			return nil, fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
		case definite(err):
			return nil, err
		case canceled(ctx):
			// The caller has given up while the service had time left to answer.
		default:
			again, last = b.after(err), err
		}
		if !sleep(ctx, again) {
			return nil, ended(ctx, last)
		}
	}
}

// ended returns the error of a wait that ended with ctx.
func ended(ctx context.Context, last error) error {
	if last != nil {
		return unavailable(ctx, last)
	}
	return causeOf(ctx)
}

// waitOf returns how long to wait for the lock. The service ends the wait shortly before ctx does: it then removes the waiter
// and names the holder.
func waitOf(ctx context.Context) time.Duration {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return maxWait
	}
	wait := time.Until(deadline)
	return max(time.Millisecond, min(maxWait, wait-min(wait/8, time.Second)))
}

// tries reports whether the next request does not wait. A replica at which a request waits looks like one that is dead, until the
// end of a poll. If ctx has no room for a poll at each replica, the first requests look for one that answers. A request that
// follows one that waits must wait, too: otherwise the waiter loses its position.
func (a *acquisition) tries(ctx context.Context) bool {
	deadline, bounded := ctx.Deadline()
	n := time.Duration(len(a.client.bases))
	return bounded && n > 1 && !a.joins && time.Until(deadline) < n*(maxPoll+answerTimeout)
}

// pollTimeout bounds a request that waits. If ctx ends before another poll, half of the time that waitOf leaves for the answer is
// for the other replicas, unless a healthy one could not answer in it.
func (a *acquisition) pollTimeout(ctx context.Context, wait time.Duration) time.Duration {
	poll, after := min(wait, maxPoll), answerTimeout
	if deadline, bounded := ctx.Deadline(); bounded && len(a.client.bases) > 1 {
		after = min(after, max(minAnswerTime, (time.Until(deadline)-poll)/2))
	}
	return poll + after
}

// send sends the request once.
func (a *acquisition) send(ctx context.Context, wait, timeout time.Duration) (*grant, int, error) {
	operation := "acquire"
	if a.place.kind == "elections" {
		operation = "campaign"
	}
	a.terms.WaitMillis = wait.Milliseconds()
	g := &grant{sent: time.Now()}
	status, err := a.client.exchange(ctx, http.MethodPost, a.place.path(operation), timeout, a.terms, g)
	a.joins = a.joins || wait > 0 && !unsent(err)
	switch {
	case settled(err):
		a.pending = false
	case definite(err): // refused before the lock was looked at: an earlier request may have left a node
	case !unsent(err):
		a.pending = true
	}
	return g, status, err
}

// withdraw removes what an acquisition that ended may have left behind. A repeat that does not wait has a definite answer: a
// refusal, with which the service removes the waiter, or the grant, which is released. One deadline bounds both: the caller has
// given up, and waits for them.
func (a *acquisition) withdraw(ctx context.Context) error {
	deadline := time.Now().Add(releaseTimeout)
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	b := a.client.backoff(time.Second)
	for {
		n := a.client.current.Load()
		g, status, err := a.send(ctx, 0, a.client.share(ctx, releaseTimeout/2))
		switch {
		case err == nil && status == http.StatusOK:
			return a.client.release(ctx, newHold(a.client, a.place, g), time.Until(deadline))
		case settled(err):
			return nil
		}
		a.client.current.CompareAndSwap(n, n+1) // another replica may still know the caller that this one refuses
		if !sleep(ctx, b.after(err)) {
			return fmt.Errorf("%w: %w", ErrUncertain, err)
		}
	}
}
