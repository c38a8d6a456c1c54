// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestHeldErrorIsErrLockedAndNamesTheHolder(t *testing.T) {
	holder := recipes.Contender{
		Name: "2s-lock-0000000007", Owner: "pod-7", Since: time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC),
	}
	err := fmt.Errorf("nightly report: %w", &lock.HeldError{Path: "/locks/report", Holder: holder})

	require.ErrorIs(t, err, lock.ErrLocked)
	require.NotErrorIs(t, err, recipes.ErrLost)
	var held *lock.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, holder, held.Holder)
	require.EqualError(t, err, `nightly report: lock /locks/report: held by "pod-7" since 2026-03-01 09:30:00Z (2s-lock-0000000007)`)
}

func TestHeldErrorForForeignNodeReportsWhatIsKnown(t *testing.T) {
	err := &lock.HeldError{Path: "/locks/report", Holder: recipes.Contender{
		Name: "_c_33f5f7e5-lock-0000000007", Owner: "192.0.2.7\n",
	}}
	require.EqualError(t, err, `lock /locks/report: held by "192.0.2.7\n" (_c_33f5f7e5-lock-0000000007)`)
}

func TestHeldErrorWithoutAHolderStatesThatItHasLeft(t *testing.T) {
	err := &lock.HeldError{Path: "/locks/report"}
	require.ErrorIs(t, err, lock.ErrLocked)
	require.EqualError(t, err, "lock /locks/report: taken by other clients during the call, which have left")
}
