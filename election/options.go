// SPDX-License-Identifier: Apache-2.0

package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/backoff"
	"github.com/lockkeeper/lockkeeper/internal/ownerlabel"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Defaults of the options of the same names.
const (
	DefaultCoolDown        = time.Second
	DefaultRetryBackoff    = time.Second
	DefaultMaxRetryBackoff = time.Minute
	DefaultHealthInterval  = 5 * time.Second
	DefaultHealthTimeout   = 5 * time.Second
	DefaultPriorityWait    = time.Second
)

// Options are the options of an Election. The zero value of a field means its
// default.
type Options struct {
	// Owner is the label that other clients see for this candidate: at most 4096 bytes.
	// The default is the client's Options.Owner. It need not be unique, but people
	// tell candidates apart by it.
	Owner string

	// ReleaseTimeout bounds Resign, and how long a Campaign that failed waits for the
	// deletion of its node. The default is the session timeout.
	ReleaseTimeout time.Duration

	// StopTimeout bounds how long Run waits for its work to return after the work's
	// context was cancelled; then Run returns ErrOverrun. The default is to wait
	// without a bound.
	StopTimeout time.Duration

	// CoolDown is how long Run waits after a term before it campaigns again, so
	// that other candidates can lead. The default is DefaultCoolDown; for almost no
	// cool-down, set it to a nanosecond.
	CoolDown time.Duration

	// Retry, if not nil, is called with each error with which work failed while its term
	// lasted, after the term was resigned. If it returns true, Run backs off and
	// campaigns again; if it returns false, Run returns the error, as it does without
	// Retry. Log the error in it: nothing else reports it. Run calls Retry on its own
	// goroutine, and waits for it.
	Retry func(err error) bool

	// RetryBackoff is the time between a first failure and the next campaign. The
	// default is DefaultRetryBackoff. It doubles with each further failure, up to
	// MaxRetryBackoff, whose default is DefaultMaxRetryBackoff. It is reset after work
	// that returned nil, lost its term, or ran for MaxRetryBackoff. A random part of up
	// to a half is subtracted. The cool-down is a lower bound.
	RetryBackoff    time.Duration
	MaxRetryBackoff time.Duration

	// Health, if not nil, reports why this process should not lead, nil if it is fit to. Run
	// calls it while work runs, on a separate goroutine: when a term begins, and
	// HealthInterval after each answer, for which the default is DefaultHealthInterval. Its
	// context is done after HealthTimeout, for which the default is DefaultHealthTimeout, and
	// when the term ends.
	//
	// An error, a panic, and no answer within HealthTimeout end the term: Run cancels the
	// work's context, waits for the work, resigns, and treats ErrUnhealthy with the reason as
	// an error of work. A check that has not returned HealthTimeout after that ends Run in
	// any case; the check continues. Campaign without Run does not call Health.
	Health         func(ctx context.Context) error
	HealthInterval time.Duration
	HealthTimeout  time.Duration

	// Priority of this candidate, 0 to MaxPriority. A candidate that could lead yields
	// for one of a higher priority that waits behind it, and joins again at the end of the
	// queue. It does so only once that candidate has shown that it lives, and only for
	// PriorityWait after it could first have led, for which the default is
	// DefaultPriorityWait: then it leads. A candidate of a lower priority that leads goes on.
	//
	// So a candidate of a higher priority that is dead keeps the election from a leader for
	// PriorityWait at most, unless it dies after it has shown that it lives: then it is the
	// first, and blocks until its session expires, as any first candidate that is dead. So does
	// a dead candidate without a higher priority that waits between the two. And a
	// candidate that has yielded leads before all that join after it, as it does not step
	// back again in the same campaign once PriorityWait has passed. Candidates of other
	// libraries and of older versions have priority 0, and never yield.
	//
	// A candidate with a priority that waits, and has no candidate of at least its priority
	// ahead, watches the first candidate. The nearest candidate behind the first that has a
	// higher priority writes the node <path>-priority, which stays when the election is over.
	// With a small PriorityWait, a candidate of a lower priority leads more often.
	//
	// To have the oldest or the newest version lead during a rollout, map the version to a priority: see
	// the example. It is a preference. A leader of the other version goes on until its term ends, and
	// candidates without priorities, such as those of releases before the mapping, have priority 0.
	Priority     int
	PriorityWait time.Duration

	// LockDelay is how long Campaign and Run wait after a leader that did not resign: it
	// crashed, or it lost its term, or perhaps its Resign was not confirmed. Requests of that leader
	// that are still on their way arrive in this time. The default is not to wait.
	// LockDelay of lock.Options states how the delay is counted, and what all candidates must
	// set.
	LockDelay time.Duration

	// Fence, if not nil, is called before Campaign returns the term, and before Run calls
	// work, after such a leader, when LockDelay is over. It makes sure that the former leader
	// does no harm: it revokes its credentials, or stops its process. An error keeps the
	// candidate from leading: Campaign and Run return it, and Retry does not see it. A panic
	// passes through both, after the node was deleted. Fence can be called more than once for
	// one leader. See Fence of lock.Options.
	Fence func(ctx context.Context, former recipes.FormerHolder) error

	_ struct{}
}

func (o *Options) check() error {
	if err := ownerlabel.Check(o.Owner); err != nil {
		return err
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"release timeout", o.ReleaseTimeout},
		{"stop timeout", o.StopTimeout},
		{"cool-down", o.CoolDown},
		{"retry back-off", o.RetryBackoff},
		{"maximum retry back-off", o.MaxRetryBackoff},
		{"health interval", o.HealthInterval},
		{"health timeout", o.HealthTimeout},
		{"priority wait", o.PriorityWait},
		{"lock-delay", o.LockDelay},
	} {
		if d.value < 0 {
			return fmt.Errorf("%s %v is negative", d.name, d.value)
		}
	}
	if err := protocol.CheckPriority(o.Priority); err != nil {
		return err
	}
	if o.Retry == nil && (o.RetryBackoff != 0 || o.MaxRetryBackoff != 0) {
		return errors.New("retry back-off without Retry: set Retry, the function that decides which errors are retried")
	}
	if o.Health == nil && (o.HealthInterval != 0 || o.HealthTimeout != 0) {
		return errors.New("health interval or timeout without Health: set Health, the function that checks the process")
	}
	if b := o.backoff(); b.Max < b.Min {
		return fmt.Errorf("maximum retry back-off %v is below the retry back-off %v", b.Max, b.Min)
	}
	return nil
}

func (o *Options) backoff() backoff.Backoff {
	return backoff.New(cmp.Or(o.RetryBackoff, DefaultRetryBackoff), cmp.Or(o.MaxRetryBackoff, DefaultMaxRetryBackoff))
}
