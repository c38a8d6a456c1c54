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
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// reaping returns how long a path must stay unused until its parent node is reaped: its queue must drain, and servers check
// once a second. A queue with leases takes longer: the leases of partitioned holders must expire first. So does one where each
// contender has many waiters: the sessions of those that are paused must expire.
func reaping(o *Options) (least, most time.Duration) {
	least, most = sixteenthsOfT(12, 24)(o)
	if o.Waiters > 0 {
		least, most = sixteenthsOfT(36, 48)(o)
	}
	if o.Replicas > 0 {
		least, most = least+worker.LeaseTTL(o.Timeout), most+2*worker.LeaseTTL(o.Timeout)
	}
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
	return r.reservations.reserved("tree "+args[0], func() (heal, error) { // not while the path is left unused
		return nothingToHeal, r.operator.deleteParent(ctx, args[0])
	})
}

// reap makes the contenders leave a path unused, and checks that the servers reap it meanwhile.
func reap(ctx context.Context, r *run, args []string, lasts time.Duration) (heal, error) {
	if r.operator == nil {
		return nil, docker.ErrUnsupported
	}
	return r.reservations.reserved("tree "+args[0], func() (heal, error) {
		unused, cancel := context.WithTimeout(context.WithoutCancel(ctx), lasts)
		done := make(chan error, 1)
		r.background.Go(func() { done <- r.leaveUnused(unused, args[0], r.operator.exists) })
		return func(context.Context) error {
			err := <-done
			cancel()
			return err
		}, nil
	})
}

// leaveUnused makes all contenders leave a path unused until ctx ends, including processes that start meanwhile. It returns nil
// once it has observed that the path exists and then that it does not: a path that is missing at first may have been deleted by
// an operator a moment before.
func (r *run) leaveUnused(ctx context.Context, path string, exists func(context.Context, string) (bool, error)) error {
	until, _ := ctx.Deadline()
	notified := map[*process]bool{}
	existed := false
	for {
		for _, c := range r.contenders {
			if p := c.current(); !notified[p] {
				notified[p] = true
				c.send(worker.Avoid + " " + path + " " + time.Until(until).String())
			}
		}
		is, err := exists(ctx, path)
		if err == nil && existed && !is {
			return nil
		}
		existed = existed || err == nil && is
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s was not observed to disappear: %w", path, errors.Join(errMissed, err))
		}
	}
}
