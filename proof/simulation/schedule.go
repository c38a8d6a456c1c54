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

// interval belongs to the schedule of all scenarios: several activations pass in a session timeout.
const interval = schedule.Every(time.Second)

// runActivations is a replica of the schedule for d, in which each run takes busy.
func (p *Process) runActivations(d, busy time.Duration) {
	p.runActivationsUntil(d, busy, func(int) bool { return false })
}

// mustRunActivation is a replica of the schedule until it has run an activation, which it must within d after any fault that has ended.
func (p *Process) mustRunActivation(d time.Duration) {
	if p.runActivationsUntil(d, 0, func(ran int) bool { return ran > 0 }) == 0 {
		p.world.problemf("%s: no activation was run in %v", p.name, d)
	}
}

// runActivationsUntil is runActivations until stop returns true for the number of activations that it has run. It returns that number.
func (p *Process) runActivationsUntil(d, busy time.Duration, stop func(ran int) bool) (ran int) {
	s, err := schedule.New(p.client, lockPath, interval, &schedule.Options{
		Election: election.Options{Owner: p.name, CoolDown: 50 * time.Millisecond},
	})
	if err != nil {
		p.must(err)
		return 0
	}
	ctx, cancel := context.WithTimeout(p.ctx, d)
	defer cancel()
	err = s.Run(ctx, func(ctx context.Context, activation schedule.Activation) error {
		ran++
		p.record(history.Event{
			Contender: p.name, Path: lockPath, Token: history.ID(activation.Token()), Text: activation.Time.Format(time.RFC3339),
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
