// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/schedule"
)

// interval is that of the schedule of all scenarios: several ticks pass in a session timeout.
const interval = schedule.Every(time.Second)

// runTicks is a replica of the schedule for d, in which each run takes busy.
func (p *Process) runTicks(d, busy time.Duration) {
	p.runTicksUntil(d, busy, func(int) bool { return false })
}

// mustRunTick is a replica of the schedule until it has run a tick, which it must within d after any fault that has ended.
func (p *Process) mustRunTick(d time.Duration) {
	if p.runTicksUntil(d, 0, func(ran int) bool { return ran > 0 }) == 0 {
		p.world.problemf("%s: no tick was run in %v", p.name, d)
	}
}

// runTicksUntil is runTicks until stop returns true for the number of ticks that it has run. It returns that number.
func (p *Process) runTicksUntil(d, busy time.Duration, stop func(ran int) bool) (ran int) {
	s, err := schedule.New(p.client, lockPath, interval, &schedule.Options{
		Election: election.Options{ID: p.name, CoolDown: 50 * time.Millisecond},
	})
	if err != nil {
		p.must(err)
		return 0
	}
	ctx, cancel := context.WithTimeout(p.ctx, d)
	defer cancel()
	err = s.Run(ctx, func(ctx context.Context, tick schedule.Tick) error {
		ran++
		p.record(history.Event{
			Contender: p.name, Path: lockPath, Token: history.ID(tick.Token), Text: tick.Time.Format(time.RFC3339),
		}, history.Ran)
		select {
		case <-time.After(busy):
		case <-ctx.Done():
		}
		if stop(ran) {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, recipes.ErrUncertain) && !p.crashed() {
		p.must(err)
	}
	return ran
}
