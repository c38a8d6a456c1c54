// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/register"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// holderTarget stands for a contender in a plan: the one that holds a lock when the fault is injected.
const holderTarget = "holder"

// partitionedTarget stands for a contender in a plan: the holder that a fault aimed at and that is partitioned when the next
// fault is injected.
const partitionedTarget = "partitioned"

// errNotPartitioned reports that no holder that was aimed at is partitioned.
var errNotPartitioned = errors.New("no partitioned holder")

// errNoHolder reports that no contender has held a lock for long enough to be hit while it holds.
var errNoHolder = errors.New("no holder to aim at")

// target returns the contender that a fault hits: the one with the given number or, for holderTarget, the one that the
// registers identify as a holder. The harness asks that holder to extend its hold while the fault lasts, because work that is
// partitioned or stopped takes longer, too.
func (r *run) target(name string, lasts time.Duration) (*contender, error) {
	if name != holderTarget {
		return r.contender(name)
	}
	c, _, err := r.aim(lasts)
	return c, err
}

// aim returns a holder, and requests it to extend its hold.
func (r *run) aim(lasts time.Duration) (*contender, register.Holding, error) {
	c, h, err := r.holder()
	if err != nil {
		return nil, h, err
	}
	c.send(fmt.Sprintf("%s %d %v", worker.Extend, h.Attempt, lasts+r.opts.Timeout/4))
	r.recorder.add(history.Event{
		At: r.time.Now(), Kind: history.Fault, Text: fmt.Sprintf("aimed at %s, which holds %s in attempt %d", h.Contender, h.Path, h.Attempt),
	})
	return c, h, nil
}

// holder returns a contender that holds a lock and has held it for longer than the short holds last, so that a fault injected
// now hits it while it still holds. Of several, it returns the one that was granted its lock last, without those that have a
// fault in progress.
func (r *run) holder() (*contender, register.Holding, error) {
	now := r.time.Now()
	for _, h := range r.registers.Holdings() {
		if now-h.Last > history.Instant(worker.Gap(r.opts.Timeout)) || now-h.Since <= history.Instant(worker.LongestShortHold(r.opts.Timeout)) {
			continue
		}
		for _, c := range r.contenders {
			if c.current().name == h.Contender && !r.reservations.isReserved(c.processTarget()) && !r.reservations.isReserved(c.linksTarget()) {
				return c, h, nil
			}
		}
	}
	return nil, register.Holding{}, errNoHolder
}
