// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/docker/torture"
	"github.com/lockkeeper/lockkeeper/internal/simulation/check"
	"github.com/lockkeeper/lockkeeper/internal/simulation/history"
)

// TestMain makes the test binary the command when it is asked to be, and the command's contenders, too.
func TestMain(m *testing.M) {
	if os.Getenv(torture.PartVariable) != "" || os.Getenv("TORTURE_TEST_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// tortured is the command in a process of its own.
func tortured(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	// The ZooKeeper client has a race of its own: on a new connection it reads the last zxid as it writes it (conn.go, 614
	// and 849). It is reported, and a contender does not end with a status of its own because of it.
	cmd.Env = append(os.Environ(), "TORTURE_TEST_MAIN=1", "GORACE=exitcode=0")
	cmd.WaitDelay = 30 * time.Second
	return cmd
}

func TestFlagThatMakesNoSenseIsRefusedWithWhatIsAllowed(t *testing.T) {
	plan := filepath.Join(t.TempDir(), "plan.txt")
	require.NoError(t, os.WriteFile(plan, []byte("at 1s for 2s flood 1\n"), 0o600))
	for _, wrong := range []struct{ args, says string }{
		{"-duration abc", "of the run, 10s to 24h"},
		{"-duration 1s", "duration 1s: allowed are 10s to 24h"},
		{"-servers 2", "2 servers: allowed are 3 and 5"},
		{"-faults flood", `fault "flood": allowed are counter, cut-contender, cut-follower`},
		{"-faults kill-server,", `fault "": allowed are`},
		{"-contenders 0", "0 contenders: allowed are 1 to 16"},
		{"-clients 0", "0 clients: allowed are 1 to 16"},
		{"-timeout 0s", "session timeout 0s: allowed are 2s to 40s"},
		{"-contenders 17", "17 contenders: allowed are 1 to 16"},
		{"-clients -1", "-1 clients: allowed are 1 to 16"},
		{"-timeout 1h", "session timeout 1h0m0s: allowed are 2s to 40s"},
		{"-seed x", "of the faults and of what contenders ask for"},
		{"-plan " + plan, `line 1: "flood" is no fault: there are counter, cut-contender`},
		{"-plan /nonexistent", "no such file"},
		{"-contender x -faults step-clock", "step-clock: these contenders' clocks cannot be stepped"},
		{"now", "no arguments"},
	} {
		var problems bytes.Buffer
		require.Equal(t, notRun, run(strings.Fields(wrong.args), io.Discard, &problems), wrong.args)
		require.Contains(t, problems.String(), wrong.says)
	}
}

// An hour of this is what `make torture DURATION=1h` runs. Clocks are not stepped: that takes a minute to build.
func TestShortTortureFindsNothing(t *testing.T) {
	docker.Start(t, nil) // or skip, when there is nothing to run servers with
	dir := t.TempDir()
	var faults []string
	for _, kind := range torture.Kinds() {
		if kind != "step-clock" && kind != "rolling-restart" { // which takes a quarter of the time
			faults = append(faults, kind)
		}
	}
	cmd := tortured(t, "-duration", "45s", "-seed", "7", "-out", dir, "-faults", strings.Join(faults, ","))
	cmd.Stderr = t.Output()
	summary, err := cmd.Output()
	require.NoError(t, err, "%s", summary)
	t.Logf("%s", summary)

	document, err := os.ReadFile(filepath.Join(dir, "result.json"))
	require.NoError(t, err)
	var result torture.Result
	require.NoError(t, json.Unmarshal(document, &result))
	require.Equal(t, torture.Schema, result.Schema)
	require.Equal(t, "held up", result.Verdict)
	require.Equal(t, "lockkeeper", result.Contender)
	require.Greater(t, result.Numbers.Grants, 50)
	require.Positive(t, result.Numbers.Ends[history.GivenUp])
	require.Positive(t, result.Writes.All)
	injected := 0
	for _, n := range result.Faults {
		injected += n.Injected
	}
	require.Greater(t, injected, 5)

	// What was kept says the same again.
	file, err := os.Open(filepath.Join(dir, "history.jsonl"))
	require.NoError(t, err)
	events, err := history.Read(file)
	require.NoError(t, errors.Join(err, file.Close()))
	require.Empty(t, check.History(events, check.Linearizable))
	require.Equal(t, result.Numbers, check.Measure(events))
}

func TestInterruptedTortureLeavesNothing(t *testing.T) {
	docker.Start(t, nil) // or skip
	dir := t.TempDir()
	cmd := tortured(t, "-duration", "60s", "-seed", "7", "-out", dir, "-faults", "pause-contender,pause-server,kill-server")
	problems, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var servers []string
	lines := bufio.NewScanner(problems)
	for lines.Scan() && !strings.Contains(lines.Text(), "contenders begin") {
		t.Log(lines.Text())
		if before, _, found := strings.Cut(lines.Text(), " serving after"); found {
			servers = strings.Split(before[strings.LastIndex(before, " ")+1:], ",")
		}
	}
	require.Len(t, servers, 3)
	require.NotEmpty(t, contendersOf(t, cmd.Process.Pid), "contenders")
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	for lines.Scan() {
		t.Log(lines.Text())
	}
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, interrupted, exit.ExitCode())
	require.Empty(t, contendersOf(t, cmd.Process.Pid))
	require.Empty(t, belongings(t, cmd.Process.Pid))
}

// contendersOf are the processes that a torture has started, by what is in their environment.
func contendersOf(t *testing.T, harness int) []string {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	var contenders []string
	for _, name := range found {
		environ, err := os.ReadFile(name)
		if err == nil && bytes.Contains(environ, []byte(torture.PartVariable+"=")) &&
			bytes.Contains(environ, []byte(fmt.Sprintf("%q:%d", "harness", harness))) {
			contenders = append(contenders, name)
		}
	}
	return contenders
}

// belongings are containers, networks, volumes and namespaces that name a process as their owner.
func belongings(t *testing.T, pid int) []string {
	t.Helper()
	var found []string
	owner := fmt.Sprintf("/%d-", pid)
	for _, list := range [][]string{
		{"docker", "ps", "-a", "--format", "{{.Labels}}"},
		{"docker", "network", "ls", "--format", "{{.Labels}}"},
		{"docker", "volume", "ls", "--format", "{{.Labels}}"},
		{"ip", "netns", "list"},
	} {
		out, err := exec.CommandContext(t.Context(), list[0], list[1:]...).Output()
		if err != nil {
			continue // there is none of them here, then
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, owner) || strings.Contains(line, fmt.Sprintf("-%d-", pid)) {
				found = append(found, list[0]+": "+line)
			}
		}
	}
	return found
}
