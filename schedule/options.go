// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
)

// Limits of Options.MaxDelay.
const (
	DefaultMaxDelay = time.Minute
	MinMaxDelay     = time.Second
)

// Options are the options of a Scheduler. The zero value of a field means its default.
type Options struct {
	// MaxDelay is how long after its instant an activation can still be run: after a fail-over, or after a run that took longer
	// than the interval. The default is DefaultMaxDelay, and the minimum MinMaxDelay. A fail-over takes the session timeout
	// and a tick of the servers, and longer if the last leader's work stops slowly.
	MaxDelay time.Duration

	// Logger receives the failures of the job; the default is slog.Default.
	Logger *slog.Logger

	// Election is the options of the election of the leader. Its Retry decides whether Run continues after an activation could
	// not be stored; StopTimeout bounds how long Run waits for a job whose context is done.
	Election election.Options

	_ struct{}
}

// maxDelay returns the delay after which an activation is skipped.
func (o *Options) maxDelay() (time.Duration, error) {
	d := cmp.Or(o.MaxDelay, DefaultMaxDelay)
	if d < MinMaxDelay {
		return 0, fmt.Errorf("maximum delay %v is below %v", d, MinMaxDelay)
	}
	return d, nil
}
