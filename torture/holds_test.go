// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

func TestUnavailabilityOfUncontendedHoldsIsOneNumber(t *testing.T) {
	of := map[string]history.Instant{"/torture/a": 3, "/torture/holds/1/7": 5, "/torture/holds/2/1": 4}
	collapseHolds(of)
	require.Equal(t, map[string]history.Instant{"/torture/a": 3, holdsRoot: 5}, of)
}
