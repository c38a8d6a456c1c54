// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/service/internal/principal"
)

// permissionInterval is the time after which the caller of a long wait is identified again, as the caller of a stream is.
const permissionInterval = commentInterval

// acquirePermitted is Locks.Acquire for a long wait. It ends with the refusal that a new request would get when the caller may no
// longer acquire the lock: a wait can outlive the permission that admitted it by a day.
func (a *API) acquirePermitted(ctx context.Context, c *call, req lease.Request) (lease.Grant, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		a.watchPermission(ctx, c, cancel)
	}()
	g, err := a.Locks.Acquire(ctx, c.received, req)
	cancel(nil)
	<-watched
	var withdrawn *Problem
	if err != nil && errors.As(context.Cause(ctx), &withdrawn) {
		return g, withdrawn.because(err)
	}
	return g, err // a grant that was faster stands
}

// watchPermission calls withdraw when the caller may no longer acquire the lock. It returns then, or when ctx is done.
func (a *API) watchPermission(ctx context.Context, c *call, withdraw context.CancelCauseFunc) {
	ticker := time.NewTicker(permissionInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if p := a.mayStillAcquire(c); p != nil {
			withdraw(p)
			return
		}
	}
}

func (a *API) mayStillAcquire(c *call) *Problem {
	who, p := a.identifyAgain(c)
	if p == nil && (who.Name != c.principal.Name || !who.Has(principal.Client)) {
		p = noPermission()
	}
	return p
}

// identifyAgain identifies the caller of a wait or a stream: it can outlive the permission that admitted it.
func (a *API) identifyAgain(c *call) (*principal.Principal, *Problem) {
	who, err := a.Principals.Get().Identify(c.request)
	switch {
	case err != nil:
		return nil, problem(Unauthenticated, "The credentials were withdrawn.").because(err)
	case c.namespace != "" && !who.MayUse(c.namespace):
		return nil, noPermission()
	}
	return who, nil
}

func noPermission() *Problem { return problem(Forbidden, "The permission was withdrawn.") }
