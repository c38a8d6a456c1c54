// SPDX-License-Identifier: Apache-2.0

// Package limit bounds what each principal may ask of one replica.
package limit

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits are the bounds of one principal. Replicas share no state: a principal that spreads its requests over n
// replicas gets n times the rate and the waiters.
type Limits struct {
	Rate      float64       // requests a second
	Burst     int           // requests that can come at the same time
	Waiters   int           // acquires that wait and event streams, at the same time
	KeyBytes  int           // length of a key
	BodyBytes int64         // length of a request body
	MaxTTL    time.Duration // of a lease
}

// A Purpose is what a request is for: each has a budget of its own.
type Purpose int

// The purposes.
const (
	Any     Purpose = iota
	Keeping         // keeps or gives back a lease: without it, the principal loses its locks
	Looking         // reads a lock
	purposes
)

// perLease is how many requests a second each lease adds to the budgets of its principal other than [Any]. A client renews
// a lease three times in its TTL, of a second at least.
const perLease = 4

// maxWaiters bounds the waiters of one replica: 10,000 event streams over TLS take 480 MB.
const maxWaiters = 10_000

// maxUnread bounds the bytes of the answers that one principal has asked for, for one purpose, and not read: they are in memory until
// then.
const maxUnread = 16 << 20

// A Limiter counts the requests, the waiters and the large answers of each principal. It is safe for concurrent use.
type Limiter struct {
	mu         sync.Mutex
	principals map[string]*usage // guarded by mu
	waiters    int               // guarded by mu
}

type usage struct {
	rates   [purposes]*rate.Limiter
	waiters int
	unread  [purposes]int // bytes of answers
}

// New returns a Limiter that has counted nothing.
func New() *Limiter { return &Limiter{principals: make(map[string]*usage)} }

// Allow counts one request of a principal that has so many leases. It returns 0 if the request is within the limits, and
// otherwise the time after which a request will be.
func (l *Limiter) Allow(principal string, limits Limits, purpose Purpose, leases int) (retryAfter time.Duration) {
	if purpose != Any {
		limits.Rate += float64(perLease * leases)
		limits.Burst += perLease * leases
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return allow(l.usage(principal).within(purpose, limits))
}

// allow counts one event, if it is within the limit.
func allow(l *rate.Limiter) (retryAfter time.Duration) {
	now := time.Now()
	reserved := l.ReserveN(now, 1)
	if !reserved.OK() { // a burst of 0
		return time.Second
	}
	delay := reserved.DelayFrom(now)
	if delay > 0 {
		reserved.CancelAt(now)
	}
	return delay
}

// Wait counts one waiter until leave is called. It reports false if the principal, or the replica, has as many as it may.
func (l *Limiter) Wait(principal string, limits Limits) (leave func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.usage(principal)
	if u.waiters >= limits.Waiters || l.waiters >= maxWaiters {
		return nil, false
	}
	u.waiters++
	l.waiters++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		u.waiters--
		l.waiters--
	}), true
}

// Answer counts the bytes of an answer until written is called. It reports false if the principal would have too many for this purpose
// that it has not read. A principal that has read all is never refused, whatever the size.
func (l *Limiter) Answer(principal string, purpose Purpose, bytes int) (written func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	unread := &l.usage(principal).unread[purpose]
	if *unread > 0 && *unread+bytes > maxUnread {
		return nil, false
	}
	*unread += bytes
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		*unread -= bytes
	}), true
}

// Waiters returns the number of waiters of all principals.
func (l *Limiter) Waiters() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiters
}

// usage returns what a principal uses. The caller holds mu.
func (l *Limiter) usage(principal string) *usage {
	u := l.principals[principal]
	if u == nil {
		u = &usage{}
		l.principals[principal] = u
	}
	return u
}

// within returns the budget for a purpose, under limits that may have changed since the last request.
func (u *usage) within(purpose Purpose, limits Limits) *rate.Limiter {
	r := u.rates[purpose]
	if r == nil {
		r = rate.NewLimiter(rate.Limit(limits.Rate), limits.Burst)
		u.rates[purpose] = r
	}
	if r.Limit() != rate.Limit(limits.Rate) {
		r.SetLimit(rate.Limit(limits.Rate))
	}
	if r.Burst() != limits.Burst {
		r.SetBurst(limits.Burst)
	}
	return r
}
