// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/service/internal/principal"
)

// The routes of this file are another contract of others. Its caller is identified by its credentials and client_id, has one
// lease of a lock at a time, and presents the fencing token, which all may read, in place of a lock token.
//
// The token is a JSON number. It is a zxid, whose upper half counts elections of the ensemble's leader, and whose lower half
// counts writes since: it needs more than the 53 bits that each JSON library keeps after 2 million elections.

// numericRequest is the requestId of each acquisition of a client, so that a repeat finds the lease. It is longer than one
// that a request of the other routes can have: no lease of theirs can be renewed or released without its lock token.
var numericRequest = strings.Repeat("client_id ", 20)

// LockName is the lock that a request names.
type LockName struct {
	LockName string `path:"lock_name" doc:"A key of the namespace default: 1 to 512 bytes of UTF-8, percent-encoded"`
}

type numericAcquire struct {
	LockName
	Body struct {
		ClientID   string `json:"client_id" minLength:"1" maxLength:"256" doc:"Of the program that asks; scoped to the principal"`
		TTLMillis  int64  `json:"ttl_ms,omitempty" minimum:"1000" default:"30000" doc:"How long the lease lasts without a renewal, in ms"`
		WaitMillis *int64 `json:"wait_timeout_ms,omitempty" minimum:"0" maximum:"86400000" doc:"How long to wait if the lock is held, in ms. 0 or missing: do not wait"`
	}
}

func (r *numericAcquire) subject() subject { return subject{owner: r.Body.ClientID} }

// NumericProof is what a holder presents.
type NumericProof struct {
	ClientID     string `json:"client_id" minLength:"1" maxLength:"256"`
	FencingToken int64  `json:"fencing_token" minimum:"1" doc:"From the grant"`
}

func (p *NumericProof) subject() subject {
	return subject{owner: p.ClientID, token: fencing.Token(p.FencingToken).String()}
}

type numericRelease struct {
	LockName
	Body NumericProof
}

func (r *numericRelease) subject() subject { return r.Body.subject() }

type numericRenew struct {
	LockName
	Body struct {
		NumericProof
		TTLMillis int64 `json:"ttl_ms,omitempty" minimum:"1000" default:"30000" doc:"From now on, in ms. The TTL of a lease never gets shorter"`
	}
}

func (r *numericRenew) subject() subject { return r.Body.subject() }

// numericGrant is a lease that is held.
type numericGrant struct {
	Acquired     bool      `json:"acquired"`
	FencingToken int64     `json:"fencing_token" doc:"It rises with each grant: pass it to the resource"`
	ExpiresAt    time.Time `json:"expires_at" doc:"Informational, by the clock of the replica"`
	ValidMillis  int64     `json:"valid_ms" doc:"The lease ends so long after the sending of this request, by your monotonic clock"`

	node string // for the audit
}

func (g *numericGrant) lease() (token, node string) {
	return strconv.FormatInt(g.FencingToken, 10), g.node
}

// numericRenewed is a lease that was extended.
type numericRenewed struct {
	Renewed     bool      `json:"renewed"`
	ExpiresAt   time.Time `json:"new_expires_at" doc:"Informational, by the clock of the replica"`
	ValidMillis int64     `json:"valid_ms" doc:"The lease ends so long after the sending of this request, by your monotonic clock"`
}

// numericReleased is the answer to a release.
type numericReleased struct {
	Released bool `json:"released"`
}

func (a *API) registerNumeric() {
	route := func(action, summary string, body any) operation {
		return operation{
			name: "numeric-" + action, action: action, method: http.MethodPost, path: "/api/v1/locks/{lock_name}/" + action,
			summary: summary + " in the namespace default, by client id and fencing token", namespace: defaultNamespace,
			contract: true, role: principal.Client, audited: true, answers: map[int]any{200: body},
		}
	}
	register(a, route("acquire", "Acquire a lock, in one request,", numericGrant{}), a.numericAcquire)
	register(a, route("renew", "Extend a lease", numericRenewed{}), a.numericRenew)
	register(a, route("release", "Release a lock", numericReleased{}), a.numericRelease)
}

func (a *API) numericAcquire(ctx context.Context, c *call, in *numericAcquire) (*answer, error) {
	if _, err := c.ttl("body.ttl_ms", in.Body.TTLMillis); err != nil {
		return nil, err
	}
	out, err := a.acquire(ctx, c, Terms{
		OwnerID: in.Body.ClientID, RequestID: numericRequest, TTLMillis: in.Body.TTLMillis, WaitMillis: in.Body.WaitMillis,
	}, lease.Request{Unbroken: true})
	if err != nil {
		return nil, err
	}
	g := out.Body.(*grant)
	return &answer{Status: http.StatusOK, Body: &numericGrant{
		Acquired: true, FencingToken: int64(g.token), ExpiresAt: time.UnixMilli(g.ExpiresAt).UTC(), ValidMillis: g.ValidMillis, node: g.node,
	}}, nil
}

func (a *API) numericRenew(ctx context.Context, c *call, in *numericRenew) (*answer, error) {
	ttl, err := c.ttl("body.ttl_ms", in.Body.TTLMillis)
	if err != nil {
		return nil, err
	}
	ticket, err := a.findTicket(ctx, c, in.Body.NumericProof)
	if err != nil {
		return nil, err
	}
	out, err := a.renewTicket(ctx, c, ticket, ttl)
	if err != nil {
		return nil, err
	}
	g := out.Body.(*grant)
	return &answer{Status: http.StatusOK, Body: &numericRenewed{
		Renewed: true, ExpiresAt: time.UnixMilli(g.ExpiresAt).UTC(), ValidMillis: g.ValidMillis,
	}}, nil
}

func (a *API) numericRelease(ctx context.Context, c *call, in *numericRelease) (*answer, error) {
	ticket, err := a.findTicket(ctx, c, in.Body)
	if err == nil {
		err = a.releaseTicket(ctx, ticket)
	}
	switch {
	case errors.Is(err, lease.ErrReplaced):
		return nil, problem(NotLockOwner, "The client has a newer lease of this lock, with another token.").because(err)
	case err != nil && !errors.Is(err, lease.ErrGone): // a repeat finds no lease
		return nil, err
	}
	return &answer{Status: http.StatusOK, Body: &numericReleased{Released: true}}, nil
}

// findTicket returns the ticket of the lease that a client presents the token of.
func (a *API) findTicket(ctx context.Context, c *call, p NumericProof) (lease.Ticket, error) {
	ctx, cancel := bound(ctx, 0)
	defer cancel()
	return a.Locks.Find(ctx, lease.Request{
		Path: c.path, Principal: c.principal.Name, Owner: p.ClientID, RequestID: numericRequest,
	}, fencing.Token(p.FencingToken))
}
