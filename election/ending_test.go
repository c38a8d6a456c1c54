// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestEndingIsAFailureUnlessTheWorkHadToStop(t *testing.T) {
	var (
		broken    = errors.New("disk full")
		sick      = fmt.Errorf("%w: out of memory", ErrUnhealthy)
		shutdown  = errors.New("shutting down")
		lostClaim = fmt.Errorf("hold: %w", recipes.ErrLost)
		uncertain = fmt.Errorf("%w: %w", context.Canceled, recipes.ErrUncertain)
	)
	for name, c := range map[string]struct {
		work, resigned error
		unhealthy      error
		lost, stopped  bool
		cause          error
		want           ending
	}{
		"work is done":                                     {},
		"work fails":                                       {work: broken, want: ending{failure: broken}},
		"work fails after a loss":                          {work: broken, lost: true, want: ending{failure: broken}},
		"work fails after the stop":                        {work: broken, stopped: true, cause: context.Canceled, want: ending{failure: broken}},
		"cancelled without a reason":                       {work: context.Canceled, want: ending{failure: context.Canceled}},
		"cancelled after a loss":                           {work: context.Canceled, lost: true},
		"cancelled after a loss that Resign found":         {work: context.Canceled, resigned: lostClaim},
		"cancelled after the stop":                         {work: context.Canceled, stopped: true, cause: context.Canceled},
		"timed out after the stop":                         {work: context.DeadlineExceeded, stopped: true, cause: context.Canceled},
		"a stale token after a loss":                       {work: fencing.ErrStale, lost: true},
		"a stale token in a term that lasts":               {work: fencing.ErrStale, want: ending{failure: fencing.ErrStale}},
		"the loss itself":                                  {work: lostClaim, lost: true},
		"the cause of the stop":                            {work: shutdown, stopped: true, cause: shutdown},
		"an uncertain outcome after the stop":              {work: uncertain, stopped: true, cause: context.Canceled, want: ending{failure: uncertain}},
		"an uncertain outcome after a loss":                {work: uncertain, lost: true},
		"an uncertain outcome after a loss, then the stop": {work: uncertain, lost: true, stopped: true, cause: context.Canceled, want: ending{failure: uncertain}},
		"a release that was not confirmed":                 {resigned: recipes.ErrUncertain, want: ending{release: recipes.ErrUncertain}},
		"a failure and a refused release":                  {work: broken, resigned: shutdown, want: ending{failure: broken, release: shutdown}},
		"a release after a loss":                           {resigned: lostClaim},
		"a health check failed, as the work returns":       {work: sick, unhealthy: sick, want: ending{failure: sick}},
		"a health check failed and the work is done":       {unhealthy: sick, want: ending{failure: errors.Join(sick)}},
		"a health check failed and the work stopped":       {work: context.Canceled, unhealthy: sick, want: ending{failure: errors.Join(sick)}},
		"a health check failed and so did the work":        {work: broken, unhealthy: sick, want: ending{failure: errors.Join(sick, broken)}},
		"a health check failed and the term was lost":      {work: lostClaim, unhealthy: sick, lost: true, want: ending{failure: errors.Join(sick)}},
	} {
		require.Equal(t, c.want, endingOf(c.work, c.resigned, c.unhealthy, c.lost, c.stopped, c.cause), name)
	}
}
