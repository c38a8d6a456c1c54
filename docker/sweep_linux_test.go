// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Test packages that start at the same time find the same leftovers.
func TestSweepsAtTheSameTimeRemoveTheFoldersOfAKilledRun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	process := exec.CommandContext(t.Context(), "true")
	require.NoError(t, process.Start())
	ended := folderPrefix + owner{self().host, process.Process.Pid, processStart(process.Process.Pid)}.process()
	require.NoError(t, process.Wait())
	for i := range 20 {
		require.NoError(t, os.MkdirAll(filepath.Join(os.TempDir(), ended+"-"+strconv.Itoa(i), "1", "data"), 0o755))
	}
	var sweeps sync.WaitGroup
	errs := make(chan error, 20)
	for range cap(errs) {
		sweeps.Go(func() { errs <- sweepFolders() })
	}
	sweeps.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestLeftoversThatRemainAreReported(t *testing.T) {
	c := choice{backend: &engine{image: "zk:1"}, left: os.ErrPermission}
	require.Equal(t, "tests: containers of zk:1\ntests: leftovers of an earlier run remain: permission denied\n", c.report("tests"))
}

// Otherwise Ctrl-C would end the servers before the program that releases its locks on them.
func TestEachServerHasAProcessGroup(t *testing.T) {
	server := exec.CommandContext(t.Context(), "sleep", "60")
	killWithParent(server)
	require.NoError(t, server.Start())
	defer func() { _ = server.Wait() }() // killed
	defer func() { require.NoError(t, server.Process.Kill()) }()
	group, err := syscall.Getpgid(server.Process.Pid)
	require.NoError(t, err)
	require.Equal(t, server.Process.Pid, group)
}
