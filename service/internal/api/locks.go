// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/service/internal/history"
	"github.com/lockkeeper/lockkeeper/service/internal/principal"
)

// minTTL is the shortest lease, and maxWait the longest wait.
const (
	minTTL  = time.Second
	maxWait = 24 * time.Hour
)

// The parts of requests are exported because Huma ignores embedded structs that are not.

// Place is the lock that a request names. The middleware reads it from the path.
type Place struct {
	Namespace string `path:"namespace" doc:"1 to 64 letters, digits, '.', '_' and '-'"`
	Key       string `path:"key" doc:"1 to 512 bytes of UTF-8, percent-encoded; an encoded slash is part of the key"`
}

// Terms are the parameters that acquire and campaign share.
type Terms struct {
	OwnerID    string `json:"ownerId" minLength:"1" maxLength:"256" doc:"Of the program that asks; scoped to the principal"`
	RequestID  string `json:"requestId" minLength:"1" maxLength:"128" doc:"One for each acquisition. A repeat with the same one gets the same grant"`
	TTLMillis  int64  `json:"ttlMillis,omitempty" minimum:"1000" default:"30000" doc:"How long the lease lasts without a renewal, in ms"`
	WaitMillis *int64 `json:"waitMillis,omitempty" minimum:"0" maximum:"86400000" doc:"How long to wait if the lock is held, in ms. 0: do not wait"`
	Wait       *bool  `json:"wait,omitempty" doc:"true without waitMillis: wait for as long as the caller does, 24 h at most. false: do not wait"`
}

// Wish is the body of an acquire.
type Wish struct {
	Terms
	Reentrant bool              `json:"reentrant,omitempty" doc:"Share the lease with other reentrant requests of the same owner"`
	Metadata  map[string]string `json:"metadata,omitempty" maxProperties:"16" doc:"Shown to those who may read the lock; names of at most 64 bytes, values of 256"`
}

type acquireRequest struct {
	Place
	Body Wish
}

func (r *acquireRequest) subject() subject { return r.Body.subject() }

func (t *Terms) subject() subject { return subject{owner: t.OwnerID, requestID: t.RequestID} }

// Proof is what a holder presents.
type Proof struct {
	OwnerID   string `json:"ownerId" minLength:"1" maxLength:"256"`
	LockToken string `json:"lockToken" minLength:"1" maxLength:"2048" doc:"From the grant"`
}

func (p *Proof) subject() subject { return subject{owner: p.OwnerID} }

// Extension is the body of a renewal.
type Extension struct {
	Proof
	TTLMillis int64 `json:"ttlMillis,omitempty" minimum:"1000" default:"30000" doc:"From now on, in ms. The TTL of a lease never gets shorter"`
}

type renewRequest struct {
	Place
	Body Extension
}

func (r *renewRequest) subject() subject { return r.Body.subject() }

type releaseRequest struct {
	Place
	Body Proof
}

func (r *releaseRequest) subject() subject { return r.Body.subject() }

// grant is a lease that is held.
type grant struct {
	LockKey      string `json:"lockKey"`
	LockToken    string `json:"lockToken" doc:"Proves the grant: keep it secret"`
	FencingToken string `json:"fencingToken" doc:"Decimal digits. It rises with each grant: pass it to the resource"`
	OwnerID      string `json:"ownerId"`
	TTLMillis    int64  `json:"ttlMillis"`
	ValidMillis  int64  `json:"validMillis" doc:"The lease ends so long after the sending of this request, by your monotonic clock"`
	ExpiresAt    int64  `json:"expiresAt" doc:"Informational: ms since the epoch, by the clock of the replica"`

	node  string // for the audit
	token fencing.Token
}

func (g *grant) lease() (token, node string) { return g.FencingToken, g.node }

// waiting is the answer to a poll that ended with wait time left.
type waiting struct {
	LockKey          string `json:"lockKey"`
	Position         int    `json:"position" doc:"Contenders ahead"`
	CurrentOwner     string `json:"currentOwner,omitempty" doc:"Of the holder; missing if the first contender still waits"`
	RetryAfterMillis int64  `json:"retryAfterMillis" doc:"Send the same request again after this time"`
	AskWithinMillis  int64  `json:"askWithinMillis" doc:"Send it within this time to keep the position"`
}

// released is the answer to a release.
type released struct {
	Status  string `json:"status" enum:"RELEASED"`
	LockKey string `json:"lockKey"`
	OwnerID string `json:"ownerId"`
}

func (a *API) registerLocks() {
	register(a, operation{
		name: "acquire", method: http.MethodPost, path: "/v1/locks/{namespace}/{key}/acquire", summary: "Acquire a lock",
		role: principal.Client, audited: true, answers: map[int]any{200: grant{}, 202: waiting{}},
	}, func(ctx context.Context, c *call, in *acquireRequest) (*answer, error) {
		return a.acquireLock(ctx, c, in.Body, false)
	})
	register(a, operation{
		name: "renew", method: http.MethodPost, path: "/v1/locks/{namespace}/{key}/renew", summary: "Extend a lease",
		role: principal.Client, audited: true, answers: map[int]any{200: grant{}},
	}, func(ctx context.Context, c *call, in *renewRequest) (*answer, error) { return a.renew(ctx, c, in.Body) })
	register(a, operation{
		name: "release", method: http.MethodPost, path: "/v1/locks/{namespace}/{key}/release", summary: "Release a lock",
		role: principal.Client, audited: true, answers: map[int]any{200: released{}},
	}, func(ctx context.Context, c *call, in *releaseRequest) (*answer, error) {
		return a.release(ctx, c, in.Body)
	})
	a.registerForce()
}

// acquireLock asks for the lease of a lock. unbroken: for as long as the caller waits, in this request.
func (a *API) acquireLock(ctx context.Context, c *call, w Wish, unbroken bool) (*answer, error) {
	if err := checkMetadata(w.Metadata); err != nil {
		return nil, err
	}
	return a.acquire(ctx, c, w.Terms, lease.Request{Reentrant: w.Reentrant, Metadata: w.Metadata, Unbroken: unbroken})
}

// acquire asks for a lease on terms; req has the rest.
func (a *API) acquire(ctx context.Context, c *call, t Terms, req lease.Request) (*answer, error) {
	ttl, err := c.ttl("body.ttlMillis", t.TTLMillis)
	if err != nil {
		return nil, err
	}
	wait, err := t.wait()
	if err != nil {
		return nil, err
	}
	if wait > 0 {
		leave, ok := a.limiter.Wait(c.principal.Name, c.principal.Limits)
		if !ok {
			return nil, problem(TooManyWaiters, "").retryAfter(time.Second)
		}
		defer leave()
	}
	poll := min(wait, maxPoll)
	if req.Unbroken {
		poll = wait
		if err := c.answerWithin(poll + callTimeout + answerTimeout); err != nil {
			return nil, err
		}
	}
	ctx, cancel := bound(ctx, poll)
	defer cancel()
	if err := a.Quota.Admit(ctx, c.namespace, c.path); err != nil {
		return nil, err
	}
	req.Path, req.Principal, req.Owner, req.RequestID = c.path, c.principal.Name, t.OwnerID, t.RequestID
	req.TTL, req.Wait = ttl, wait
	var g lease.Grant
	if !req.Unbroken {
		g, err = a.Locks.Acquire(ctx, c.received, req)
	} else {
		g, err = a.acquirePermitted(ctx, c, req)
		if late := c.answerWithin(answerTimeout); late != nil {
			return nil, errors.Join(late, err)
		}
	}
	var queued *lease.WaitingError
	switch {
	case errors.As(err, &queued) && req.Unbroken:
		return nil, problem(Unavailable, "The replica is stopping. Repeat the request: another one goes on with it.").retryAfter(unavailableRetry)
	case errors.As(err, &queued):
		return &answer{Status: http.StatusAccepted, Body: &waiting{
			LockKey: c.key, Position: queued.Position, CurrentOwner: queued.Holder(),
			RetryAfterMillis: queued.RetryAfter.Milliseconds(), AskWithinMillis: queued.AskWithin.Milliseconds(),
		}}, nil
	case err != nil:
		return nil, err
	}
	a.metrics.grants.Observe((time.Since(c.received) - g.Waited).Seconds())
	a.written(c, g, g.Repeated)
	a.History.Add(c.namespace, c.key, history.Entry{Time: time.Now(), Action: history.Acquired, Token: g.Token, Owner: g.Owner})
	return a.granted(c, g), nil
}

func (a *API) renew(ctx context.Context, c *call, e Extension) (*answer, error) {
	ttl, err := c.ttl("body.ttlMillis", e.TTLMillis)
	if err != nil {
		return nil, err
	}
	ticket, err := a.ticket(c, e.Proof)
	if err != nil {
		return nil, err
	}
	return a.renewTicket(ctx, c, ticket, ttl)
}

func (a *API) renewTicket(ctx context.Context, c *call, ticket lease.Ticket, ttl time.Duration) (*answer, error) {
	ctx, cancel := bound(ctx, 0)
	defer cancel()
	g, err := a.Locks.Renew(ctx, c.received, ticket, ttl)
	if errors.Is(err, lease.ErrGone) {
		a.Holds.Forget(ticket.Node)
	}
	if err != nil {
		return nil, err
	}
	a.written(c, g, true)
	return a.granted(c, g), nil
}

func (a *API) release(ctx context.Context, c *call, p Proof) (*answer, error) {
	ticket, err := a.ticket(c, p)
	if err != nil {
		return nil, err
	}
	if err := a.releaseTicket(ctx, ticket); err != nil {
		return nil, err
	}
	return &answer{Status: http.StatusOK, Body: releasedOf(c, p.OwnerID)}, nil
}

func (a *API) releaseTicket(ctx context.Context, ticket lease.Ticket) error {
	ctx, cancel := bound(ctx, 0)
	defer cancel()
	err := a.Locks.Release(ctx, ticket)
	switch {
	case err == nil:
		a.Holds.Released(ticket.Node, ticket.Request)
	case errors.Is(err, lease.ErrGone):
		a.Holds.Forget(ticket.Node)
	}
	return err
}

func releasedOf(c *call, owner string) *released {
	return &released{Status: "RELEASED", LockKey: c.key, OwnerID: owner}
}

// ticket verifies what a holder presents.
func (a *API) ticket(c *call, p Proof) (lease.Ticket, error) {
	return a.Keys.Get().Verify(p.LockToken, c.path, c.principal.Name, p.OwnerID)
}

func (a *API) granted(c *call, g lease.Grant) *answer {
	return &answer{Status: http.StatusOK, Body: &grant{
		LockKey: c.key, LockToken: a.Keys.Get().Make(g.Ticket), FencingToken: g.Token.String(), OwnerID: g.Owner,
		TTLMillis: g.TTL.Milliseconds(), ValidMillis: g.Valid.Milliseconds(), ExpiresAt: g.Expires.UnixMilli(), node: g.Ticket.Node, token: g.Token,
	}}
}

// ttl returns the TTL that the caller asks for. The schema has the lower bound; the upper one is the principal's.
func (c *call) ttl(field string, millis int64) (time.Duration, error) {
	if limit := c.principal.Limits.MaxTTL; millis < minTTL.Milliseconds() || millis > limit.Milliseconds() {
		return 0, invalid(field, fmt.Sprintf("the TTL is not between %d and %d ms", minTTL.Milliseconds(), limit.Milliseconds()))
	}
	return time.Duration(millis) * time.Millisecond, nil
}

// wait returns how long the caller waits.
func (t *Terms) wait() (time.Duration, error) {
	switch {
	case t.WaitMillis == nil && t.Wait == nil:
		return 0, nil
	case t.WaitMillis == nil && *t.Wait:
		return maxWait, nil
	case t.WaitMillis == nil:
		return 0, nil
	}
	wait := *t.WaitMillis
	if wait < 0 || wait > maxWait.Milliseconds() {
		return 0, invalid("body.waitMillis", fmt.Sprintf("the wait is not between 0 and %d ms", maxWait.Milliseconds()))
	}
	if t.Wait != nil && *t.Wait != (wait > 0) {
		return 0, invalid("body.wait", "wait contradicts waitMillis")
	}
	return time.Duration(wait) * time.Millisecond, nil
}

// checkMetadata bounds what each contender must read.
func checkMetadata(metadata map[string]string) error {
	for name, value := range metadata {
		if name == "" || len(name) > 64 || len(value) > 256 {
			return invalid("body.metadata", "a name is not 1 to 64 bytes long, or a value is over 256 bytes")
		}
	}
	return nil
}
