// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
)

// serviceFaults need no build of the contenders.
const serviceFaults = "kill-replica,restart-replica,pause-replica,partition-replica,partition-callers,revoke,partition-contender,pause-contender,kill-contender,kill-server"

// servicePlan hits each replica, and holders of both kinds.
const servicePlan = `
at 1s for 5s partition-contender 2 both
at 1.5s for 3s revoke holder
at 2s for 4s kill-contender 4
at 3s for 5s pause-replica 1
at 4s for 3s partition-callers 2 to-client
at 8.5s for 3s partition-contender holder both
at 9s for 3s kill-replica 2
at 9.5s for 3.5s partition-replica 1 both
at 14s for 2s restart-replica 1
at 14.5s for 2s kill-server leader
at 15s for 2s partition-callers 2 both
`

// An hour of this is what `make torture-service DURATION=1h` runs.
func TestShortTortureOfTheServiceFindsNothing(t *testing.T) {
	t.Parallel()
	needServers(t)
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "plan.txt")
	require.NoError(t, os.WriteFile(file, []byte(servicePlan), 0o600))
	cmd, temporary := tortured(t, "-duration", "20s", "-timeout", "3s", "-seed", "1", "-replicas", "2", "-out", dir, "-plan", file,
		"-faults", serviceFaults)
	cmd.Stderr = t.Output()
	summary, err := cmd.Output()
	t.Logf("%s", summary)
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == unknown {
		err = nil // so short a run need not test every promise
	}
	require.NoError(t, err)
	requireEmpty(t, temporary)
	result, err := readResult(dir)
	require.NoError(t, err)
	require.NotEqual(t, verdict.Broken, result.Verdict)
	require.Equal(t, 2, result.Replicas)
	leases := result.Numbers.Leases
	require.Positive(t, leases.Released)
	require.Greater(t, result.Numbers.Grants, leases.Granted, "contenders of the library hold the same paths")
	require.Equal(t, leases.Granted, leases.Released+leases.Expired+leases.Revoked+leases.ByOperator)
	for _, p := range result.Promises {
		if p.Rule == check.FirstInQueue || p.Rule == check.RisingTokens {
			require.Equal(t, verdict.Valid, p.Verdict, p.Rule)
		}
	}
}
