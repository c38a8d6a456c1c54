// SPDX-License-Identifier: Apache-2.0

// Package examples holds tests only: each example is run as a person runs it.
package examples

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func build(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", file, "./"+name).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return file
}

func TestWorkerThatWasFrozenIsRefusedByTheDatabase(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), build(t, "worker"), "-freeze").CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
	frozen := regexp.MustCompile(`\*\*\* (\w) is frozen`).FindSubmatch(out)
	require.NotNil(t, frozen)
	// The job that it had begun was done by the next leader, and stays so. Which one it is depends on how busy the machine is.
	refusal := regexp.MustCompile(`(\w)  writes job \d+ with token (\d+): refused, (\d+) has been admitted; it stays done by (\w)`).FindSubmatch(out)
	require.NotNil(t, refusal)
	require.Equal(t, frozen[1], refusal[1])
	require.NotEqual(t, frozen[1], refusal[4])
}

func TestControllerThatWasFrozenIsRefusedByZooKeeper(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), build(t, "controller"), "-freeze").CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
	frozen := regexp.MustCompile(`\*\*\* (\w) is frozen`).FindSubmatch(out)
	require.NotNil(t, frozen)
	refusal := regexp.MustCompile(`(\w)  writes generation \d+ in epoch (\d+): refused, it is epoch (\d+) of (\w); generation \d+ of epoch (\d+) stands`).FindSubmatch(out)
	require.NotNil(t, refusal)
	require.Equal(t, frozen[1], refusal[1])
	require.NotEqual(t, frozen[1], refusal[4])
	require.NotEqual(t, refusal[2], refusal[3])
	require.Equal(t, refusal[3], refusal[5])
}

func TestPersonThrowsTheSwitch(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), build(t, "worker"), "-players", "2")
	cmd.Stdin = strings.NewReader("t\nnonsense\nq\n")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "nobody is frozen")
	require.Contains(t, string(out), `"nonsense" is none of f, t and q`)
}

func TestUnknownArgumentsOfExamplesAreErrors(t *testing.T) {
	worker := build(t, "worker")
	for _, args := range [][]string{{"-players", "1"}, {"-players", "ten"}, {"freeze"}, {"-thaw"}} {
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

func TestWorkerThatIsTerminatedFinishesItsItemAndReleases(t *testing.T) {
	lines := drain(t, "begins item 2")
	require.Contains(t, lines, "finishes item 2")
	require.NotContains(t, lines, "begins item 3")
	require.Equal(t, "released, exit", lines[len(lines)-1])
}

func TestWorkerThatLosesItsTermAbortsItsItem(t *testing.T) {
	lines := drain(t, "begins item 3", "-lose")
	require.NotContains(t, lines, "finishes item 2")
	require.Contains(t, strings.Join(lines, "\n"), "aborts item 2: ")
	require.Contains(t, lines, "finishes item 3", "in its next term")
	require.Equal(t, "released, exit", lines[len(lines)-1])
}
