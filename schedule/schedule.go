// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Schedule computes activations. The schedules of github.com/robfig/cron implement it, for instance the result of
// cron.ParseStandard("CRON_TZ=Europe/Berlin 30 3 * * *").
type Schedule interface {
	// Next returns the first activation after t, or the zero time if there is none. It depends on nothing but t, so that all
	// replicas compute the same activations. t is in UTC: a cron expression that names no time zone is in UTC on every host.
	Next(t time.Time) time.Time
}

// MinInterval is the shortest interval of Every.
const MinInterval = time.Second

// Every is a schedule with an activation at each multiple of a duration since the zero time: Every(time.Hour) has an activation at each
// full hour UTC, and Every(24*time.Hour) at midnight UTC. It is MinInterval or longer.
type Every time.Duration

// Next returns the first activation after t.
func (e Every) Next(t time.Time) time.Time {
	return t.UTC().Truncate(time.Duration(e)).Add(time.Duration(e))
}

// checkSchedule returns what is wrong with a schedule.
func checkSchedule(s Schedule) error {
	every, isEvery := s.(Every)
	switch {
	case s == nil:
		return errors.New("schedule is nil")
	case isEvery && time.Duration(every) < MinInterval:
		return fmt.Errorf("interval %v is below %v", time.Duration(every), MinInterval)
	}
	return nil
}

// next returns the first activation after t. A schedule that does not advance is an error: it would be asked without end.
func next(s Schedule, t time.Time) (time.Time, error) {
	activation := s.Next(t.UTC())
	if !activation.IsZero() && !activation.After(t) {
		return time.Time{}, fmt.Errorf("schedule returned %v as the activation after %v", activation, t)
	}
	return activation.Round(0), nil
}

// due returns the newest activation after last that is at most maxDelay old, and the activation after that. Each is zero if there is
// none. A last activation in the future counts as now: the node decides whether an activation is over, and an operator can correct it.
//
// With a MaxDelay of years, the activations after last are too many to compute: so the search begins at the end. It doubles the time
// before now in which it looks for an activation, and then follows those in the first that has one.
func due(ctx context.Context, s Schedule, last, now time.Time, maxDelay time.Duration) (activation, following time.Time, err error) {
	if oldest := now.Add(-maxDelay); last.Before(oldest) {
		last = oldest
	}
	if last.After(now) {
		last = now
	}
	for before := MinInterval; before > 0 && before < now.Sub(last); before *= 2 { // until it overflows
		from := now.Add(-before)
		if activation, err := next(s, from); err != nil || !activation.IsZero() && !activation.After(now) {
			last = from
			break
		}
	}
	following, err = next(s, last)
	for err == nil && !following.IsZero() && !following.After(now) {
		activation = following
		if err = ctx.Err(); err == nil {
			following, err = next(s, activation)
		}
	}
	return activation, following, err
}
