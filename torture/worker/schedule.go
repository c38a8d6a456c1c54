// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/schedule"
)

// A ticker is a Library whose worker processes can be replicas of a schedule.
type ticker interface {
	// runSchedules makes the process a replica of one schedule after the other, with its own client, until ctx is done, and
	// reports each tick that it runs.
	runSchedules(ctx context.Context, p *process) error
}

// runSchedules is a replica of the schedules of the run, if it has any, until no further operation may begin.
func (p *process) runSchedules(ctx context.Context) {
	library, ok := p.library.(ticker)
	if !ok || p.spec.Schedules == "" || p.spec.Probe {
		return
	}
	ctx, cancel := p.untilStop(ctx)
	defer cancel()
	if err := library.runSchedules(ctx, p); err != nil && !errors.Is(err, context.Canceled) {
		p.reporter.report(history.Event{Kind: history.Note, Text: "replica of a schedule: " + err.Error()})
	}
}

// interval is that of all schedules.
const interval = schedule.Every(schedule.MinInterval)

// scheduleLasts returns for how long processes are replicas of one schedule. Then all take the next one: a leader whose wall
// clock was stepped forward stores a tick of the future, after which its schedule has no tick until then.
func scheduleLasts(timeout history.Instant) history.Instant { return 16 * timeout }

func (lockkeeper) runSchedules(ctx context.Context, p *process) error {
	client, err := recipes.Connect(ctx, p.spec.Servers, &recipes.Options{
		SessionTimeout: time.Duration(p.spec.Timeout), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer client.Close()
	lasts := scheduleLasts(p.spec.Timeout)
	for ctx.Err() == nil {
		now := p.reporter.time.Now() // not the wall clock
		path := fmt.Sprintf("%s/%d", p.spec.Schedules, now/lasts)
		s, err := schedule.New(client, path, interval, &schedule.Options{Election: election.Options{ID: p.spec.Name}})
		if err != nil {
			return err
		}
		running, cancel := context.WithTimeout(ctx, time.Duration(lasts-now%lasts))
		err = s.Run(running, func(_ context.Context, tick schedule.Tick) error {
			p.reporter.report(history.Event{
				Kind: history.Ran, Path: path, Token: history.ID(tick.Token), Text: tick.Time.Format(time.RFC3339),
			})
			return nil
		})
		cancel()
		if err != nil && !errors.Is(err, recipes.ErrUncertain) { // a tick or a release whose outcome is unknown
			return err
		}
	}
	return nil
}
