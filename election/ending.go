// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// An ending is how a term ended.
type ending struct {
	failure error // of the work; nil if it returned nil, or the reason why it had to stop
	release error // why the node may not be gone
}

// endingOf decides how a term ended: work is the error that the work returned, resigned
// the error of Resign, unhealthy the error of a health check that failed, lost reports whether the
// term was lost or handed over before it was resigned, and stopped whether Run's context is done, for cause.
func endingOf(work, resigned, unhealthy error, lost, stopped bool, cause error) ending {
	if errors.Is(resigned, recipes.ErrLost) {
		lost, resigned = true, nil
	}
	expected := isStop(work) && (lost || stopped || unhealthy != nil) || errors.Is(work, cause)
	// An operation that the end of the context has cut short may have been carried out, and
	// there is no further term in which the work could find out: that is reported.
	if expected && (!stopped || !errors.Is(work, recipes.ErrUncertain)) {
		work = nil
	}
	if unhealthy != nil && !errors.Is(work, unhealthy) {
		work = errors.Join(unhealthy, work)
	}
	return ending{failure: work, release: resigned}
}

// isStop reports whether work ended because it had to stop.
func isStop(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, recipes.ErrLost) || errors.Is(err, fencing.ErrStale) || errors.Is(err, ErrHandedOver)
}
