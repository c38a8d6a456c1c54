// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/proof/torture/attempt"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestTimedOutLockIsNotReportedAsHeld(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{lock.ErrLocked, attempt.HeldByAnother},
		{errors.Join(lock.ErrLocked, context.DeadlineExceeded), attempt.TimedOut},
		{errors.Join(recipes.ErrUncertain, context.DeadlineExceeded), attempt.Uncertain},
		{errors.New("boom"), "boom"},
	} {
		require.Equal(t, c.want, lockkeeper{}.Reason(c.err))
	}
}
