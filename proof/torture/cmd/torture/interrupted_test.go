// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

func TestInterruptedTortureLeavesNothing(t *testing.T) {
	t.Parallel()
	needServers(t)
	plan := filepath.Join(t.TempDir(), "plan.txt")
	require.NoError(t, os.WriteFile(plan, []byte(`at 1s for 9m pause-server 2
at 1s for 9m fill-disk 1
at 1s for 9m partition-server 3
at 1s for 9m kill-contender 2
at 2s for 9m pause-contender 1
`), 0o600))
	cmd, temporary := tortured(t, "-duration", "10m", "-seed", "7", "-contenders", "2", "-clients", "1", "-out", t.TempDir(), "-plan", plan,
		"-faults", "pause-server,fill-disk,partition-server,kill-contender,pause-contender")
	harness, err := child.Start(t, cmd)
	require.NoError(t, err)
	_, err = harness.Await(t.Context(), "torture: 2 contenders started")
	require.NoError(t, err)
	// The last of the faults is in progress.
	require.Eventually(t, func() bool { return slices.ContainsFunc(contendersOf(t, harness.Pid()), isStopped) }, 3*time.Minute,
		10*time.Millisecond, "a contender is frozen")
	require.NotEmpty(t, belongings(t, harness.Pid()), "what is looked for can be found")
	require.NoError(t, harness.Signal(os.Interrupt))
	began := time.Now()
	var exit *exec.ExitError
	require.ErrorAs(t, harness.Wait(), &exit)
	require.Equal(t, interrupted, exit.ExitCode())
	require.Contains(t, harness.Output(), "everything is removed")
	require.Less(t, time.Since(began), 5*time.Minute, "taking back the faults takes its time, and that is all there is to wait for")
	require.Empty(t, contendersOf(t, harness.Pid()))
	require.Empty(t, belongings(t, harness.Pid()))
	requireEmpty(t, temporary)
}

// contendersOf returns the processes that a torture run has started, found by their environment, as folders in /proc.
func contendersOf(t *testing.T, harness int) []string {
	t.Helper()
	return processes(t, "environ", func(environ string) bool {
		_, spec, found := strings.Cut(environ, worker.SpecVariable+"=")
		spec, _, _ = strings.Cut(spec, "\x00")
		var p worker.Spec
		return found && json.Unmarshal([]byte(spec), &p) == nil && p.Harness == harness
	})
}

// processes returns the processes of which a file in /proc matches.
func processes(t *testing.T, file string, says func(string) bool) []string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/" + file)
	require.NoError(t, err)
	var found []string
	for _, name := range all {
		// The file of a process that has ended meanwhile cannot be read.
		if text, err := os.ReadFile(name); err == nil && says(string(text)) {
			found = append(found, filepath.Dir(name))
		}
	}
	return found
}

// isStopped reports whether a process was stopped by SIGSTOP.
func isStopped(process string) bool {
	stat, err := os.ReadFile(filepath.Join(process, "stat"))
	_, state, found := strings.Cut(string(stat), ") ") // after the name
	return err == nil && found && strings.HasPrefix(state, "T")
}

// belongings returns the containers, networks, volumes, namespaces, mounts and server processes that name a process as their
// owner.
func belongings(t *testing.T, pid int) []string {
	t.Helper()
	var found []string
	folder := fmt.Sprintf("lockkeeper-zookeeper-%d-", pid)
	names := []string{fmt.Sprintf("lockkeeper-%d-", pid), folder}
	for _, list := range [][]string{
		{"docker", "ps", "-a", "--format", "{{.Labels}}"},
		{"docker", "network", "ls", "--format", "{{.Labels}}"},
		{"docker", "volume", "ls", "--format", "{{.Labels}}"},
		{"ip", "netns", "list"},
		{"cat", "/proc/self/mountinfo"},
	} {
		out, err := exec.CommandContext(t.Context(), list[0], list[1:]...).Output()
		if err != nil {
			continue // this machine has none of them
		}
		for line := range strings.Lines(string(out)) {
			label := list[0] == "docker" && strings.Contains(line, fmt.Sprintf("/%d-", pid))
			if label || slices.ContainsFunc(names, func(name string) bool { return strings.Contains(line, name) }) {
				found = append(found, list[0]+": "+line)
			}
		}
	}
	// A server's command line has its data folder.
	return append(found, processes(t, "cmdline", func(words string) bool { return strings.Contains(words, folder) })...)
}
