// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/service/internal/principal"
)

// defaultNamespace has the keys of paths without a namespace.
const defaultNamespace = "default"

// The routes of this file are a contract that clients were written against before this service existed: one segment for the
// lock, answers after the whole wait, a conflict for each lease that has ended, and the same answer for each repeat. They do the
// same as the routes with a namespace, to the same locks.
//
// Both have three to five segments, and a key can be called as the last segment of a route. No request fits two of them: those
// that act are POST, with the key and the action below locks here, and namespace, key and action there; those that read are GET,
// with the key here, and namespace and key there. So GET /v1/locks/orders/acquire reads the key acquire of the namespace orders.

// LockKey is the lock that a request names.
type LockKey struct {
	LockKey string `path:"lockKey" doc:"A key of the namespace default: 1 to 512 bytes of UTF-8, percent-encoded"`
}

type contractStatus struct{ LockKey }

type contractAcquire struct {
	LockKey
	Body Wish
}

func (r *contractAcquire) subject() subject { return r.Body.subject() }

type contractRenew struct {
	LockKey
	Body Extension
}

func (r *contractRenew) subject() subject { return r.Body.subject() }

type contractRelease struct {
	LockKey
	Body Proof
}

func (r *contractRelease) subject() subject { return r.Body.subject() }

type contractForce struct {
	LockKey
	Body struct {
		FencingToken *digits `json:"fencingToken,omitempty" doc:"Of the holder. Without it, whoever holds the lock is ended: a repeat can hit the successor"`
		Reason       string  `json:"reason" minLength:"1" maxLength:"512" doc:"The holder gets it"`
		Mode         string  `json:"mode,omitempty" enum:"safe,now" default:"now" doc:"now releases immediately: only the fencing token protects the resource. safe notifies the holder and waits until it must have stopped"`
	}
}

func (r *contractForce) subject() subject {
	s := subject{mode: r.Body.Mode, reason: r.Body.Reason}
	if r.Body.FencingToken != nil {
		s.token = string(*r.Body.FencingToken)
	}
	return s
}

func (a *API) registerContract() {
	const path = "/v1/locks/{lockKey}"
	route := func(action, method, path, summary string, role principal.Role, body any) operation {
		return operation{
			name: "default-" + action, action: action, method: method, path: path, summary: summary + " in the namespace default",
			namespace: defaultNamespace, contract: true, role: role, audited: role != "", answers: map[int]any{200: body},
		}
	}
	register(a, route("acquire", http.MethodPost, path+"/acquire", "Acquire a lock, in one request,", principal.Client, grant{}),
		func(ctx context.Context, c *call, in *contractAcquire) (*answer, error) {
			return a.acquireLock(ctx, c, in.Body, true)
		})
	register(a, route("renew", http.MethodPost, path+"/renew", "Extend a lease", principal.Client, grant{}),
		func(ctx context.Context, c *call, in *contractRenew) (*answer, error) {
			return a.renew(ctx, c, in.Body)
		})
	register(a, route("release", http.MethodPost, path+"/release", "Release a lock", principal.Client, released{}),
		func(ctx context.Context, c *call, in *contractRelease) (*answer, error) {
			out, err := a.release(ctx, c, in.Body)
			if errors.Is(err, lease.ErrGone) {
				// The token is genuine: this repeats a release, or the lease has expired. No replica can tell.
				out, err = &answer{Status: http.StatusOK, Body: releasedOf(c, in.Body.OwnerID)}, nil
			}
			return out, err
		})
	force := route("force-release", http.MethodPost, path+"/force-release", "Release a lock without its holder", principal.Admin, forced{})
	force.administrative = true
	register(a, force, func(ctx context.Context, c *call, in *contractForce) (*answer, error) {
		f := lease.Force{Reason: in.Body.Reason, Mode: modeOf(in.Body.Mode)}
		if in.Body.FencingToken != nil {
			var err error
			if f.Token, err = tokenOf(*in.Body.FencingToken); err != nil {
				return nil, err
			}
		}
		return a.force(ctx, c, f)
	})
	register(a, route("status", http.MethodGet, path, "Read a lock", "", status{}),
		func(ctx context.Context, c *call, _ *contractStatus) (*answer, error) {
			out, err := a.readLock(ctx, c)
			if errors.Is(err, lease.ErrNotFound) {
				p := refuse(err)
				p.Detail = "It would be in the namespace default. The locks of a namespace are at /v1/locks?namespace=."
				return nil, p
			}
			return out, err
		})
}
