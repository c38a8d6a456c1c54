// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// childrenOf returns the name and the state of each child of a process, by its process id.
func childrenOf(t *testing.T, parent int) map[int]string {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	children := map[int]string{}
	for _, name := range names {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended, and its parent has waited for it
		}
		var pid, of int
		var state string
		end := strings.LastIndexByte(string(stat), ')')
		_, err = fmt.Sscan(string(stat), &pid)
		require.NoError(t, err)
		_, err = fmt.Sscan(string(stat[end+1:]), &state, &of)
		require.NoError(t, err)
		if of == parent {
			_, command, _ := strings.Cut(string(stat[:end]), "(")
			children[pid] = command + " " + state
		}
	}
	return children
}

// orphans is a shell script that leaves 20 processes without a parent, which end, and reports that all have begun.
const orphans = `i=0; while [ $i -lt 20 ]; do (sleep 0 &); i=$((i+1)); done; echo ready; while :; do sleep 0.01; done`

// requireNoZombies waits until a process has the command and no other child but a guardian, which is not the former one. It returns
// that guardian, or 0.
func requireNoZombies(t *testing.T, p *process, guarded, former int) (guardian int) {
	t.Helper()
	var children map[int]string
	require.Eventually(t, func() bool {
		children, guardian = childrenOf(t, p.cmd.Process.Pid), 0
		for pid, child := range children {
			if pid != former && strings.HasPrefix(child, "exe ") {
				guardian = pid
			}
		}
		return len(children) == 1+guarded && (guardian != 0) == (guarded == 1)
	}, 30*time.Second, 5*time.Millisecond, "children: %v", &children)
	return guardian
}

func TestOrphansOfRunningCommandLeaveNoZombies(t *testing.T) {
	t.Parallel()
	p := startProcess(t, startServers(t, nil), "run", "--lock", "/ledger", "--", "sh", "-c", orphans)
	p.awaitOutput("ready")
	requireNoZombies(t, p, 0, 0)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, statusSignalled+15, p.status())
}

// The wait for orphans may take the status of a guardian from the wait for the guardian.
func TestKilledGuardianOfRunIsReplacedWhileOrphansEnd(t *testing.T) {
	t.Parallel()
	ensemble, _ := startGuarded(t)
	p := startProcess(t, ensemble, "run", "--guard", "--lock", "/ledger", "--session-timeout", "20s", "--", "sh", "-c", orphans)
	p.awaitOutput("ready")
	former := 0
	for range 3 {
		former = requireNoZombies(t, p, 1, former)
		require.NoError(t, syscall.Kill(former, syscall.SIGKILL))
	}
	requireNoZombies(t, p, 1, former)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, statusSignalled+15, p.status())
}
