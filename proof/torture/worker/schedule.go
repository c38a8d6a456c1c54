// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/schedule"
)

func init() {
	tasks = append(tasks, task{"replica of a schedule", func(s *Spec) bool { return s.Schedules != "" }, runSchedules})
}

// interval is the same for all schedules.
const interval = schedule.Every(schedule.MinInterval)

// scheduleLasts returns for how long processes are replicas of one schedule. Then all take the next one: a leader whose wall
// clock was stepped forward stores an activation of the future, after which its schedule has no activation until then.
func scheduleLasts(timeout history.Instant) history.Instant { return 16 * timeout }

// runSchedules makes the process a replica of one schedule after the other, and reports each activation that it runs.
func runSchedules(ctx context.Context, client *recipes.Client, spec *Spec, report func(history.Event)) error {
	lasts := scheduleLasts(spec.Timeout)
	for ctx.Err() == nil {
		now := clock.Scale{Began: spec.Began}.Now() // not the wall clock
		path := fmt.Sprintf("%s/%d", spec.Schedules, now/lasts)
		s, err := schedule.New(client, path, interval, &schedule.Options{Election: election.Options{Owner: spec.Name}})
		if err != nil {
			return err
		}
		running, cancel := context.WithTimeout(ctx, time.Duration(lasts-now%lasts))
		err = s.Run(running, func(_ context.Context, activation schedule.Activation) error {
			report(history.Event{
				Kind: history.Ran, Path: path, Token: history.ID(activation.Token()), Text: activation.Time.Format(time.RFC3339),
			})
			return nil
		})
		cancel()
		if err != nil && !errors.Is(err, recipes.ErrUncertain) { // an activation or a release whose outcome is unknown
			return err
		}
	}
	return nil
}
