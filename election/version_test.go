// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
)

func TestOlderVersionHasHigherPriorityIfOldestLeads(t *testing.T) {
	versions := []string{"v0.0.0", "v0.1.0", "v0.99.3", "v1.0.0-rc.1", "v2.4.1", "v2.10.0", "v9.99.0"}
	before := -1
	for _, version := range versions {
		priority, err := newestLeads(version)
		require.NoError(t, err)
		require.Greater(t, priority, before, version)
		before = priority
		inverse, err := oldestLeads(version)
		require.NoError(t, err)
		require.Equal(t, election.MaxPriority, priority+inverse)
	}
}

func TestVersionWithoutItsOwnPriorityIsAnError(t *testing.T) {
	for _, version := range []string{"", "devel", "2.4", "v2", "v2.100.0", "v10.1.0", "v-1.0", "v99999999999999999999.0"} {
		_, err := newestLeads(version)
		require.ErrorContains(t, err, version)
	}
}
