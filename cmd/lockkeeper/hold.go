// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// A hold is what a command runs under: a claim of this process's session, or a lease of the lock service.
type hold interface {
	Token() fencing.Token
	Done() <-chan struct{}
	// Err checks the clock, so that it finds a hold that was lost a moment ago.
	Err() error
	// grace returns how long a command may take to stop after the loss of the hold was noticed at now.
	grace(now time.Time) time.Duration
	release(ctx context.Context) error
}

// A grantor grants holds.
type grantor interface {
	// acquire takes the lock or becomes the leader. Its error has the exit status.
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
	return context.WithTimeoutCause(ctx, a.wait, fmt.Errorf("%w (%v)", errWait, a.wait))
}
