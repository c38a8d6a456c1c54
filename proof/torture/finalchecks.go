// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// logBound is the timeout of a request for the end of a server's log.
const logBound = 10 * time.Second

// recover waits until all servers serve.
func (r *run) recover(ctx context.Context) error {
	waiting, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("a minute after the last fault was healed"))
	defer cancel()
	err := r.servers.WaitServing(waiting)
	if err == nil || ctx.Err() != nil {
		return err
	}
	for i, server := range r.servers.All() {
		asking, cancel := context.WithTimeout(ctx, logBound)
		r.opts.Log("server %d:\n%s", i+1, server.Log(asking))
		cancel()
	}
	return fmt.Errorf("wait for the servers after the last fault: %w", err)
}

// clear waits until no node of a contender is left, for at most 3 T, or as long as leases can last: the nodes of killed contenders,
// and of clients that could not delete theirs, are gone by then.
func (r *run) clear(ctx context.Context) error {
	for giveUp := r.time.Now() + history.Instant(max(3*r.opts.Timeout, r.opts.expiry())); ; {
		leftNodes, err := r.operator.leftNodes(ctx, r.opts.paths())
		if err == nil && len(leftNodes) == 0 {
			leftNodes, err = r.operator.leftOfRecipes(ctx)
		}
		if err != nil && r.time.Now() > giveUp+history.Instant(time.Minute) {
			return err
		}
		if err == nil && (len(leftNodes) == 0 || r.time.Now() > giveUp) {
			return nil
		}
		if err := r.until(ctx, time.Duration(r.time.Now())+200*time.Millisecond); err != nil {
			return err
		}
	}
}

// agree checks that all servers have the same nodes. Servers reap parent nodes meanwhile, so it retries for 2 T.
func (r *run) agree(ctx context.Context) error {
	for giveUp := r.time.Now() + history.Instant(2*r.opts.Timeout); ; {
		differ, err := r.operator.differ(ctx, r.opts.paths())
		if err == nil && differ == "" {
			return nil
		}
		if r.time.Now() > giveUp {
			if err == nil {
				r.failuref("the servers' trees differ, which is a bug of the servers; do not rely on the other findings: %s", differ)
			}
			return err
		}
		if err := r.until(ctx, time.Duration(r.time.Now())+200*time.Millisecond); err != nil {
			return err
		}
	}
}

// countUp records the next sequence number of the path whose counter started near its maximum.
func (r *run) countUp(ctx context.Context) error {
	if !slices.Contains(r.opts.Faults, "counter") {
		return nil
	}
	next, err := r.operator.counter(ctx, r.opts.countedPath())
	if err != nil {
		return err
	}
	r.result.Counter = next
	return nil
}
