// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// lead runs the ticks of one term, until ctx is done.
func (s *Scheduler) lead(ctx context.Context, term *election.Term, job func(context.Context, Tick) error) error {
	stored, err := s.read(ctx)
	if err != nil {
		return err
	}
	last := stored.Tick
	if last.IsZero() {
		// Nothing shows which of the past ticks were run before the node was deleted.
		last = time.Now()
	}
	for ctx.Err() == nil {
		tick, following, err := due(ctx, s.schedule, last, time.Now(), s.maxDelay)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return &recipes.Error{Op: "run schedule", Path: s.last.Path(), Err: err}
		}
		if tick.IsZero() {
			sleep(ctx, following)
			continue
		}
		last = tick
		err = s.store(ctx, term, tick)
		switch {
		case errors.Is(err, errOver):
			continue
		case err != nil:
			return err
		case ctx.Err() != nil:
			return nil // the answer came after the end of the term
		}
		if err := job(ctx, Tick{Time: tick.UTC(), Token: term.Token()}); err != nil {
			return err
		}
	}
	return nil
}

// errOver reports that the tick, or a later one, was stored before.
var errOver = errors.New("the tick is over")

// store stores the tick under the term, unless it or a later one is stored: then the error is errOver. A write whose answer
// was lost is recognised by its term.
func (s *Scheduler) store(ctx context.Context, term *election.Term, tick time.Time) error {
	mine := Record{
		Tick: tick.UTC(), Token: term.Token(), ID: term.ID(), Node: term.Path(), Since: time.Now().UTC().Round(0),
	}
	_, err := s.last.Update(ctx, term.Claim, func(data []byte, stat *zk.Stat, unanswered bool) ([]byte, error) {
		stored, err := decode(data, stat)
		switch {
		case err != nil:
			return nil, err
		case unanswered && stored.same(mine):
			return nil, nil
		case !stored.Tick.Before(mine.Tick):
			return nil, errOver
		}
		return mine.encode()
	})
	return err
}

// longestSleep bounds how long a change of the wall clock goes unnoticed: timers run on the monotonic clock.
const longestSleep = time.Minute

// sleep sleeps until the tick, for longestSleep at most, or until ctx is done. A zero tick is one that never comes.
func sleep(ctx context.Context, tick time.Time) {
	d := longestSleep
	if !tick.IsZero() {
		d = min(d, time.Until(tick))
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
