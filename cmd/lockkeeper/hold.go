// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/service/client"
)

// A hold is what a command runs under: a claim of this process's session, or a lease of the lock service.
type hold interface {
	// tokens returns the fencing tokens of the paths, in their order.
	tokens() []fencing.Token
	Done() <-chan struct{}
	// Err checks the clock, so that it finds a hold that was lost a moment ago.
	Err() error
	// grace returns how long a command may take to stop after the loss of the hold was noticed at now.
	grace(now time.Time) time.Duration
	release(ctx context.Context) error
}

// A grantor grants holds.
type grantor interface {
	// acquire takes the locks or becomes the leader. Its error has the exit status.
	acquire(ctx context.Context, a *runArguments) (hold, error)
	Owner() string
	// Path returns the name of the lock or election that the command gets.
	Path(name string) string
	close()
}

// errWait is the cause of a wait that ends with --wait.
var errWait = errors.New("the wait is over")

// bound returns a context for the wait for the hold.
func (a *runArguments) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if !a.waits {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, a.wait, &overdue{errWait, a.wait})
}

// notGranted returns the error of an acquisition that has ended because another client has the hold.
func (a *runArguments) notGranted(err error) error {
	if !a.waits || errors.Is(err, context.Canceled) {
		return err
	}
	kind, holder := "lock", ""
	switch {
	case a.elect != "":
		kind = "election"
	case a.permits != "":
		kind = "semaphore"
	case a.numbered:
		kind = "slots"
	case len(a.locks) > 1:
		kind = "locks"
	}
	var held *lock.HeldError
	var unreleased *recipes.UnreleasedError
	var refused *client.Problem
	switch {
	case errors.As(err, &unreleased):
		holder = fmt.Sprintf(": %q did not release it, and the lock-delay of %v is not over", unreleased.Former.Owner, a.lockDelay)
	case errors.As(err, &held) && len(a.locks) > 1:
		holder = fmt.Sprintf(": %s is held by %q", held.Path, held.Holder.Owner)
	case errors.As(err, &held):
		holder = fmt.Sprintf(": held by %q", held.Holder.Owner)
	case errors.As(err, &refused) && refused.CurrentOwner != "":
		holder = fmt.Sprintf(": held by %q", refused.CurrentOwner)
	}
	return fmt.Errorf("%s %s: not granted within %v%s", kind, strings.Join(a.paths(), ", "), a.wait, holder)
}
