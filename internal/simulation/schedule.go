// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/schedule"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// interval is that of the schedule of all scenarios: several ticks pass in a session timeout.
const interval = schedule.Every(time.Second)

// tickNode is the node that holds the last tick of that schedule.
const tickNode = lockPath + "-last"

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

// recordTick records a tick that the ensemble committed. It parses the node independently of package schedule.
func (w *World) recordTick(c zktest.Commit) {
	if c.Path != tickNode {
		return
	}
	var text struct {
		Tick  time.Time
		Token fencing.Token
	}
	if err := json.Unmarshal(c.Data, &text); err != nil {
		w.problemf("tick of %s: committed in an unknown format: %w", c.Path, err)
		return
	}
	w.recorder.AddAt(c.Time, history.Event{
		Kind: history.Stored, Zxid: history.ID(c.Zxid), Session: history.ID(c.Session), Path: lockPath, Node: c.Path,
		Token: history.ID(text.Token), Text: text.Tick.UTC().Format(time.RFC3339),
	})
}
