// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// lead runs the activations of one term, until ctx is done.
func (s *Scheduler) lead(ctx context.Context, term *election.Term, job func(context.Context, Activation) error) error {
	stored, err := s.read(ctx)
	if err != nil {
		return err
	}
	last := stored.Time
	if last.IsZero() {
		// Nothing shows which of the past activations were run before the node was deleted.
		last = time.Now()
	}
	for ctx.Err() == nil {
		at, following, err := due(ctx, s.schedule, last, time.Now(), s.maxDelay)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return &recipes.Error{Op: "run schedule", Path: s.last.Path(), Err: err}
		}
		if at.IsZero() {
			sleep(ctx, following)
			continue
		}
		last = at
		err = s.store(ctx, term, at)
		switch {
		case errors.Is(err, errOver):
			continue
		case err != nil:
			return err
		case ctx.Err() != nil:
			return nil // the answer came after the end of the term
		}
		if err := job(ctx, Activation{Term: term, Time: at.UTC()}); err != nil && !ended(ctx, err) {
			s.logger.Error("scheduled job failed", "path", s.election.Path(), "activation", at.UTC(), "token", term.Token(), "error", err)
		}
	}
	return nil
}

// ended reports whether err, with which a job failed, is the end of ctx.
func ended(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)) || errors.Is(err, recipes.ErrLost))
}

// errOver reports that the activation, or a later one, was stored before, or is older than MaxDelay.
var errOver = errors.New("the activation is over")

// store stores the activation under the term, unless it or a later one is stored, or no server answered the read until MaxDelay
// was over: then the error is errOver. A write whose
// answer was lost is recognised by its term.
func (s *Scheduler) store(ctx context.Context, term *election.Term, at time.Time) error {
	mine := Record{
		Time: at.UTC(), Token: term.Token(), Owner: term.Owner(), Node: term.Path(), Since: time.Now().UTC().Round(0),
	}
	_, err := s.last.Update(ctx, term.Claim, func(now content, unanswered bool) (*content, error) {
		stored := now.record()
		switch {
		case unanswered && stored.same(mine):
			return nil, nil
		case !stored.Time.Before(mine.Time), time.Since(at) > s.maxDelay:
			return nil, errOver
		}
		return mine.content(), nil
	})
	return err
}

// longestSleep bounds how long a change of the wall clock goes unnoticed: timers run on the monotonic clock.
const longestSleep = time.Minute

// sleep sleeps until an activation, for longestSleep at most, or until ctx is done. The zero time never comes.
func sleep(ctx context.Context, at time.Time) {
	d := longestSleep
	if !at.IsZero() {
		d = min(d, time.Until(at))
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
