// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/registration"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Round is this member's part in one round of a Double. All methods are safe for concurrent use.
type Round struct {
	double       *Double
	registration *registration.Registration
	of           round
}

// Number returns the number of the round. It rises from round to round, and can skip numbers.
func (r *Round) Number() int64 { return r.of.number }

// Path returns the path of the member's node, namespace included.
func (r *Round) Path() string { return r.registration.Path() }

// State returns whether the member is registered at the moment, and if not, why. The other members do
// not wait for one that is not registered. It does no I/O.
func (r *Round) State() recipes.RegistrationState { return r.registration.State() }

// Leave leaves the round, and waits until each of its members has left, has died or has lost its
// session. It returns nil exactly then.
//
// The member leaves even if ctx is done: the release timeout bounds the deletion of its node, and ctx
// the wait for the others. After an error the member has left, or its session goes on deleting its
// node, and a further call continues the wait. The error is ctx's, with recipes.ErrUncertain if the
// deletion was not confirmed; recipes.ErrClosed; that with which a server refused; or
// recipes.ErrDeleted if an operator has deleted the barrier.
func (r *Round) Leave(ctx context.Context) error {
	if ctx == nil {
		return &recipes.Error{Op: "leave", Path: r.Path(), Err: errors.New("context is nil")}
	}
	left := r.registration.Unregister(ctx)
	err := r.awaitOver(ctx)
	switch {
	case err == nil:
		return nil
	case left != nil:
		err = fmt.Errorf("%w: %w", err, left)
	}
	return fmt.Errorf("leave: %w", err)
}

// awaitOver waits until the round is over.
func (r *Round) awaitOver(ctx context.Context) error {
	f := &follower{double: r.double}
	defer f.close()
	for {
		now, changed, err := f.read(ctx)
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && now.life != r.of.life:
			return &recipes.Error{Op: "wait", Path: r.double.Path(), Err: recipes.ErrDeleted}
		case err != nil:
			return err
		case now.Round > r.of.number || now.isOver():
			return nil
		}
		if err := r.double.closeEmpty(ctx, now, changed); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-time.After(r.double.interval()):
		case <-ctx.Done():
			return ended(ctx, r.double.Path())
		}
	}
}
