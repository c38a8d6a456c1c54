// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
)

func TestResizeChangesTheLimitThatShowPrints(t *testing.T) {
	ensemble := startServers(t, nil)
	sem, err := lock.NewSemaphore(clientOf(t, ensemble, "a"), "/uploads", 3, nil)
	require.NoError(t, err)
	hold, err := sem.Acquire(t.Context(), 2)
	require.NoError(t, err)

	status, stdout, stderr := runInProcess(t, ensemble, "show", "/uploads")
	require.Equal(t, statusOK, status, stderr)
	require.Regexp(t, `^limit of 3 permits\n.*\nholder +a `, stdout)
	status, stdout, stderr = runInProcess(t, ensemble, "resize", "/uploads", "5")
	require.Equal(t, statusOK, status, stderr)
	require.Equal(t, "/uploads has a limit of 5 permits\n", stdout)
	_, stdout, _ = runInProcess(t, ensemble, "show", "/uploads", "--json")
	require.Contains(t, stdout, `"limit": 5`)

	status, stdout, stderr = runInProcess(t, ensemble, "resize", "/uploads", "1")
	require.Equal(t, statusFailed, status)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "limit of 1 permits is below the 2 that are held or waited for")
	require.NoError(t, hold.Release(t.Context()))
	_, stdout, _ = runInProcess(t, ensemble, "show", "/uploads")
	require.Equal(t, "limit of 5 permits\n/uploads is free\n", stdout)
}

func TestResizeRefusesPathsWithoutALimitAndStoresNothing(t *testing.T) {
	ensemble := startServers(t, nil)
	status, _, stderr := runInProcess(t, ensemble, "resize", "/uploads", "5")
	require.Equal(t, statusFailed, status)
	require.Contains(t, stderr, "/uploads-limit: no limit is stored")
	_, _, err := ensemble.Get("/uploads-limit")
	require.Error(t, err)
	for _, args := range [][]string{{}, {"/a"}, {"/a", "0"}, {"/a", "many"}, {"/a", "1048577"}, {"a", "1"}} {
		status, _, _ := runInProcess(t, ensemble, append([]string{"resize"}, args...)...)
		require.Equal(t, statusUsage, status, args)
	}
}
