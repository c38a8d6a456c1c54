// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// startBackground starts run with a command that runs for ten minutes, in a process group of its own. Standard input is no terminal, so
// the terminal's signals would go to this group.
func startBackground(t *testing.T, ensemble *zktest.Ensemble) *process {
	t.Helper()
	p := newProcess(t, ensemble, "run", "--lock", "/ledger", "--session-timeout", "10s", "--", "sh", "-c", "echo ready; exec sleep 600")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.start()
	return p
}

// requireStopped waits until the only child of a process is stopped, or runs.
func requireStopped(t *testing.T, parent int, want bool) {
	t.Helper()
	var states []string
	require.Eventually(t, func() bool {
		states = slices.Collect(maps.Values(childrenOf(t, parent)))
		return len(states) == 1 && strings.HasSuffix(states[0], " T") == want
	}, 30*time.Second, 5*time.Millisecond, "children: %v", &states)
}

// isStopped reports whether a child of this process is stopped.
func isStopped(t *testing.T, pid int) bool {
	t.Helper()
	return strings.HasSuffix(childrenOf(t, syscall.Getpid())[pid], " T")
}

func TestStopFromTerminalStopsTheCommandAndKeepsTheLock(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	p := startBackground(t, ensemble)
	p.awaitOutput("ready")
	require.NoError(t, syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTSTP))
	requireStopped(t, p.cmd.Process.Pid, true)
	require.False(t, isStopped(t, p.cmd.Process.Pid))
	require.Never(t, func() bool {
		children, err := ensemble.Children("/ledger")
		return err != nil || len(children) != 1
	}, 15*time.Second, 50*time.Millisecond, "the session does not expire")

	require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
	requireStopped(t, p.cmd.Process.Pid, false)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, statusSignalled+15, p.status())
	require.Empty(t, p.stderr.String())
}

// Scripts so protect what must not stop half-way.
func TestStopThatTheParentProcessIgnoresStaysIgnoredForTheCommand(t *testing.T) {
	t.Parallel()
	p := newProcess(t, startServers(t, nil), "run", "--lock", "/ledger", "--", "grep", "SigIgn", "/proc/self/status")
	shell, err := exec.LookPath("sh")
	require.NoError(t, err)
	p.cmd.Path, p.cmd.Args = shell, append([]string{"sh", "-c", `trap "" TSTP; exec "$0" "$@"`}, p.cmd.Args...)
	p.start()
	require.Equal(t, statusOK, p.status())
	ignored, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(p.stdout.String(), "SigIgn:")), 16, 64)
	require.NoError(t, err)
	require.NotZero(t, ignored&(1<<(syscall.SIGTSTP-1)))
}

func TestInterruptEndsStoppedCommand(t *testing.T) {
	t.Parallel()
	p := startBackground(t, startServers(t, nil))
	p.awaitOutput("ready")
	require.NoError(t, syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTSTP))
	requireStopped(t, p.cmd.Process.Pid, true)
	require.NoError(t, syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT))
	require.Equal(t, statusSignalled+2, p.status())
	require.Empty(t, p.stderr.String())
}

// A waiter has no command yet: its node is gone when its session has expired.
func TestStopFromTerminalStopsWaiter(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	take(t, clientOf(t, ensemble, "a"), "/ledger")
	p := startBackground(t, ensemble)
	requireContenders(t, ensemble, "/ledger", 2)
	require.NoError(t, syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTSTP))
	require.Eventually(t, func() bool { return isStopped(t, p.cmd.Process.Pid) }, 30*time.Second, 5*time.Millisecond)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, statusSignalled+15, p.status())
	require.Empty(t, p.stdout.String())
}
