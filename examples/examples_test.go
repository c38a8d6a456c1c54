// SPDX-License-Identifier: Apache-2.0

// Package examples holds tests only: they run each example as a user does.
package examples

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// binaries is a folder for the examples that tests have built.
var binaries string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	var err error
	if binaries, err = os.MkdirTemp("", "examples"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := os.RemoveAll(binaries); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	return m.Run()
}

// build returns an example's program, which only the first test of it links.
func build(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join(binaries, name)
	if _, err := os.Stat(file); err == nil {
		return file
	}
	out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s", "-o", file, "./"+name).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return file
}

func TestStaleWriteOfFrozenWorkerIsRejectedByDatabase(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), build(t, "worker"), "-freeze").CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
	frozen := regexp.MustCompile(`\*\*\* (\w) is frozen`).FindSubmatch(out)
	require.NotNil(t, frozen)
	// The next leader did the job that it had begun. Which process leads next depends on how busy the machine is.
	rejection := regexp.MustCompile(`(\w)  stale write rejected job=\d+ token=(\d+) newest=(\d+) done_by=(\w)`).FindSubmatch(out)
	require.NotNil(t, rejection)
	require.Equal(t, frozen[1], rejection[1])
	require.NotEqual(t, frozen[1], rejection[4])
}

func TestStaleWriteOfFrozenBrokerIsRejectedByZooKeeper(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), build(t, "controller"), "-freeze").CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
	frozen := regexp.MustCompile(`\*\*\* (\w) is frozen`).FindSubmatch(out)
	require.NotNil(t, frozen)
	rejection := regexp.MustCompile(`(\w)  stale write rejected partition=topic-\d generation=\d+ epoch=(\d+) newest=(\d+) broker=(\w)`).FindSubmatch(out)
	require.NotNil(t, rejection)
	require.Equal(t, frozen[1], rejection[1])
	require.NotEqual(t, frozen[1], rejection[4])
	require.NotEqual(t, rejection[2], rejection[3])
}

// The supervisor fails if a process has written outside the chroot.
func TestExamplesRunBelowChroot(t *testing.T) {
	for _, name := range []string{"controller", "worker"} {
		out, err := exec.CommandContext(t.Context(), build(t, name), "-freeze", "-chroot", "/team/app").CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
		require.Contains(t, string(out), "ok: ", name)
	}
	ensemble := zktest.Start(t, nil)
	drain(t, "begins item 2", "-servers", ensemble.Addrs()[0]+"/team/app")
	names, err := ensemble.Children("/")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"team", "zookeeper"}, names)
}

func TestUserFreezesAndThawsLeader(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), build(t, "worker"), "-processes", "2")
	cmd.Stdin = strings.NewReader("t\nnonsense\nq\n")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "no process is frozen")
	require.Contains(t, string(out), `unknown command "nonsense": want f, t or q`)
}

func TestUnknownArgumentsOfExamplesAreErrors(t *testing.T) {
	worker := build(t, "worker")
	for _, args := range [][]string{{"-processes", "1"}, {"-processes", "ten"}, {"freeze"}, {"-thaw"}} {
		out, err := exec.CommandContext(t.Context(), worker, args...).CombinedOutput()
		require.Error(t, err, "%v", args)
		require.Contains(t, string(out), "-h lists the flags", "%v", args)
	}
}

// drain starts the example, and stops it with SIGTERM when it prints a line that begins with when. It returns all that was
// printed.
func drain(t *testing.T, when string, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), build(t, "drain"), args...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	var lines []string
	for scanner := bufio.NewScanner(out); scanner.Scan(); {
		lines = append(lines, scanner.Text())
		if strings.HasPrefix(scanner.Text(), when) {
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		}
	}
	require.NoError(t, cmd.Wait(), "%q", lines)
	t.Logf("%s", strings.Join(lines, "\n"))
	return lines
}

func TestTerminatedWorkerFinishesItsItemAndReleases(t *testing.T) {
	lines := drain(t, "begins item 1", "-item", "4s") // which must last until the signal is handled
	require.Contains(t, lines, "finishes item 1")
	require.NotContains(t, lines, "begins item 2")
	require.Equal(t, "released, exit", lines[len(lines)-1])
}

func TestWorkerThatLosesItsTermAbortsItsItem(t *testing.T) {
	lines := drain(t, "begins item 3", "-lose")
	require.NotContains(t, lines, "finishes item 2")
	require.Contains(t, strings.Join(lines, "\n"), "aborts item 2: ")
	require.Contains(t, lines, "finishes item 3", "in its next term")
	require.Equal(t, "released, exit", lines[len(lines)-1])
}

func TestJobOfGocronIsCancelledByLossAndRunsAgainWithGreaterToken(t *testing.T) {
	gocron := build(t, "gocron")
	for _, args := range [][]string{nil, {"-locker"}} {
		out, err := exec.CommandContext(t.Context(), gocron, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		t.Logf("%s", out)
		runs := regexp.MustCompile(`pod-\d runs report with token (\d+)\n`).FindAllSubmatch(out, -1)
		require.Len(t, runs, 2)
		first, err := strconv.Atoi(string(runs[0][1]))
		require.NoError(t, err)
		next, err := strconv.Atoi(string(runs[1][1]))
		require.NoError(t, err)
		require.Greater(t, next, first)
		require.Regexp(t, `\npod-\d aborts report: .*claim lost.*\n`, string(out))
	}
}

func TestRunnableOfManagerRunsOnLeaderOnlyAndEndsWithItsTerm(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), build(t, "controllerruntime")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
	lines := strings.Split(string(out), "\n")
	leads := regexp.MustCompile(`(?m)^(pod-\d) leads$`).FindAllSubmatch(out, -1)
	require.Len(t, leads, 2)
	first, second := string(leads[0][1]), string(leads[1][1])
	require.NotEqual(t, first, second)
	require.Contains(t, lines, "pod-1 serves")
	require.Contains(t, lines, "pod-2 serves")
	require.Regexp(t, first+` leads no longer: .*claim lost`, string(out))
	require.Regexp(t, first+` exits: .*claim lost`, string(out))
	require.Contains(t, lines, second+" leads no longer: context canceled")
	require.Contains(t, lines, second+" exits: <nil>")
}
