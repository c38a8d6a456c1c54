// SPDX-License-Identifier: Apache-2.0

package election

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// Defaults of the options of the same names.
const (
	DefaultCoolDown        = time.Second
	DefaultRetryBackoff    = time.Second
	DefaultMaxRetryBackoff = time.Minute
)

// Options are the options of an Election. The zero value of a field means its
// default.
type Options struct {
	// ID is the name that other clients see for this candidate: at most 4096 bytes.
	// The default is the client's Options.Owner. It need not be unique, but people
	// tell candidates apart by it.
	ID string

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

	_ struct{}
}

func (o *Options) check() error {
	if err := recipes.CheckOwner(o.ID); err != nil {
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
	} {
		if d.value < 0 {
			return fmt.Errorf("%s %v is negative", d.name, d.value)
		}
	}
	if o.Retry == nil && (o.RetryBackoff != 0 || o.MaxRetryBackoff != 0) {
		return errors.New("retry back-off without Retry: set Retry, the function that decides which errors are retried")
	}
	if b := newBackoff(o); b.max < b.min {
		return fmt.Errorf("maximum retry back-off %v is below the retry back-off %v", b.max, b.min)
	}
	return nil
}
