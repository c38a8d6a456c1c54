// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/recipetest"
)

// demoCommand returns `lockkeeper demo` against the servers of env.
func demoCommand(s *env) *exec.Cmd {
	s.T.Helper()
	return s.lockkeeper("demo", "--servers", s.servers())
}

// demoPath matches the path that a demo prints.
var demoPath = regexp.MustCompile(`/lockkeeper-demo/[a-z0-9]+`)

// requireEmptyQueue fails the test if path has a child. path itself may be missing, because servers reap it.
func requireEmptyQueue(s *env, path string) {
	s.T.Helper()
	_, err := s.ZK.Sync("/")
	require.NoError(s.T, err)
	children, _, err := s.ZK.Children(path)
	if errors.Is(err, zk.ErrNoNode) {
		return // the servers have reaped the container
	}
	require.NoError(s.T, err)
	require.Empty(s.T, children)
}

func TestDemoEndsWithOKOnARealEnsemble(t *testing.T) {
	t.Parallel()
	s := withCommand(t)
	cmd := demoCommand(s)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	t.Logf("%s", stdout)
	require.NoError(t, err, "%s", &stderr)
	require.Empty(t, stderr.String())
	lines := strings.Split(strings.TrimSuffix(string(stdout), "\n"), "\n")
	require.Regexp(t, `^ok: notified \d+ ms before the next term; tokens rose \d+ -> \d+; the stale write was rejected$`, lines[len(lines)-1])
	require.Contains(t, lines[0], " on "+strings.Join(s.ensemble.Addrs(), ","))
	path := demoPath.FindString(lines[0])
	requireEmptyQueue(s, path)
	require.Eventually(t, func() bool {
		exists, _, err := s.ZK.Exists(path)
		return err == nil && !exists
	}, recipetest.Patience, 100*time.Millisecond, "the servers reap the empty container")
}

func TestInterruptedDemoLeavesNoNodeWhilePartitioned(t *testing.T) {
	t.Parallel()
	s := withCommand(t)
	cmd := demoCommand(s)
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Wait() }() // if the test fails early; the status is checked below
	stdout := bufio.NewReader(pipe)
	var output strings.Builder
	for !strings.Contains(output.String(), "is partitioned") {
		line, err := stdout.ReadString('\n')
		require.NoError(t, err, "%s", &output)
		output.WriteString(line)
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	rest, err := io.ReadAll(stdout)
	require.NoError(t, err)
	output.Write(rest)
	t.Logf("%s", &output)
	require.Error(t, cmd.Wait())
	require.Equal(t, 1, cmd.ProcessState.ExitCode())
	require.Regexp(t, `\nfailed: .*interrupt.*\n$`, output.String())
	requireEmptyQueue(s, demoPath.FindString(output.String()))
}
