// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/torture/worker"
)

// reaping is the time that it takes until a parent is removed: who is in line comes to an end, and servers look once a second.
func reaping(o *Options) (least, most time.Duration) {
	least, most = lasting(12, 24)(o)
	return least + 2*time.Second, most + 2*time.Second
}

func deleteNode(ctx context.Context, r *run, args []string, _ time.Duration) (heal, error) {
	place, err := strconv.Atoi(args[1])
	if err != nil {
		return nil, err
	}
	return nothingToHeal, r.operator.deleteNode(ctx, args[0], place)
}

func deleteParent(ctx context.Context, r *run, args []string, _ time.Duration) (heal, error) {
	return r.reservations.reserved("tree "+args[0], func() (heal, error) { // not while it rests
		return nothingToHeal, r.operator.deleteParent(ctx, args[0])
	})
}

// nothingToHeal is the healing of what cannot be taken back.
func nothingToHeal(context.Context) error { return nil }

// reap has the contenders leave a path alone, and looks whether the servers have removed it by the end.
func reap(ctx context.Context, r *run, args []string, lasts time.Duration) (heal, error) {
	if r.operator == nil {
		return nil, docker.ErrUnsupported
	}
	return r.reservations.reserved("tree "+args[0], func() (heal, error) {
		resting, over := context.WithTimeout(context.WithoutCancel(ctx), lasts)
		done := make(chan error, 1)
		r.background.Go(func() { done <- r.rest(resting, args[0], r.operator.exists) })
		return func(context.Context) error {
			err := <-done
			over()
			return err
		}, nil
	})
}

// rest has all rest at a path until ctx ends, those that begin meanwhile as well, and returns nil when the path was seen to be
// there and to go: one that is not there to begin with may have been deleted by hand a moment ago.
func (r *run) rest(ctx context.Context, path string, exists func(context.Context, string) (bool, error)) error {
	until, _ := ctx.Deadline()
	notified := map[*process]bool{}
	there := false
	for {
		for _, c := range r.contenders {
			if l := c.current(); !notified[l] {
				notified[l] = true
				c.tell(worker.Rest + " " + path + " " + time.Until(until).String())
			}
		}
		is, err := exists(ctx, path)
		if err == nil && there && !is {
			return nil
		}
		there = there || err == nil && is
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s was not seen to go: %w", path, errors.Join(errMissed, err))
		}
	}
}
