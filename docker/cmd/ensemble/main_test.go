// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/docker/internal/image"
	"github.com/lockkeeper/lockkeeper/docker/internal/need"
)

// TestMain makes the test binary the command when it is asked to be.
func TestMain(m *testing.M) {
	if os.Getenv("ENSEMBLE_TEST_MAIN") != "" {
		main()
		return
	}
	code := m.Run()
	if e := shared.ensemble; e != nil {
		if err := e.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func ensemble(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(append(os.Environ(), "ENSEMBLE_TEST_MAIN=1"), env...)
	cmd.Stderr = t.Output()
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// shared is an ensemble for all tests. TestMain closes it.
var shared struct {
	once     sync.Once
	ensemble *docker.Ensemble
	err      error
}

// running names an ensemble to the command by the environment: most tests are not about starting one.
func running(t *testing.T) []string {
	t.Helper()
	shared.once.Do(func() { shared.ensemble, shared.err = docker.Run(context.WithoutCancel(t.Context()), nil) })
	if errors.Is(shared.err, docker.ErrNoBackend) && !need.CI() {
		t.Skipf("not run: %v", shared.err)
	}
	require.NoError(t, shared.err)
	return []string{"ZK_SERVERS=" + strings.Join(shared.ensemble.Addrs(), ",")}
}

func TestCommandGetsServersAndFolderAndReturnsItsStatus(t *testing.T) {
	env := running(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	out, err := ensemble(t, env, "-dir", dir, "--", "sh", "-c", "pwd; echo ZK_SERVERS=$ZK_SERVERS; exit 7").Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 7, exit.ExitCode())
	require.Equal(t, dir+"\n"+env[0]+"\n", string(out))

	_, err = ensemble(t, env, "--", "sh", "-c", "kill -9 $$").Output()
	require.True(t, errors.As(err, &exit))
	require.Equal(t, 128+9, exit.ExitCode())

	_, err = ensemble(t, env, "--", filepath.Join(dir, "missing")).Output()
	require.True(t, errors.As(err, &exit))
	require.Equal(t, 127, exit.ExitCode())
}

func TestServersRunOnlyDuringTheCommand(t *testing.T) {
	running(t) // or skip, when there is nothing to run them with
	cmd := ensemble(t, nil, "-n", "3", "--", "sh", "-c", "echo $ZK_SERVERS; read line; exit 0")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(line, ":"), line)
	addrs := strings.Split(strings.TrimSpace(line), ",")
	for _, addr := range addrs {
		require.Eventually(t, func() bool { return serves(addr) }, time.Minute, time.Millisecond, addr)
	}
	_, err = io.WriteString(stdin, "enough\n")
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	for _, addr := range addrs {
		require.False(t, serves(addr), addr)
	}
}

// serves asks for an answer: once its network is gone, who knows where an address
// leads, and a gateway may well accept connections for it.
func serves(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }() // the answer is what counts
	if conn.SetDeadline(time.Now().Add(time.Second)) != nil {
		return false
	}
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return false
	}
	answer, err := io.ReadAll(conn)
	return err == nil && strings.Contains(string(answer), "Mode: ")
}

func TestSignalsReachTheCommand(t *testing.T) {
	cmd := ensemble(t, running(t), "--", "sh", "-c", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done")
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, 5, exit.ExitCode())
}

func TestWithoutACommandItRunsUntilInputEndsOrInterrupt(t *testing.T) {
	env := running(t)
	for _, end := range []string{"input", "interrupt"} {
		t.Run(end, func(t *testing.T) {
			cmd := ensemble(t, env)
			stdin, err := cmd.StdinPipe()
			require.NoError(t, err)
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			line, err := bufio.NewReader(stdout).ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, env[0]+"\n", line)
			if end == "input" {
				require.NoError(t, stdin.Close())
			} else {
				require.NoError(t, cmd.Process.Signal(os.Interrupt))
			}
			require.NoError(t, cmd.Wait())
		})
	}
}

func TestMistakeInFlagsIsNamedWithAdvice(t *testing.T) {
	cmd := ensemble(t, nil, "-servers", "3")
	cmd.Stderr = nil
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, 2, cmd.ProcessState.ExitCode())
	require.Equal(t, "ensemble: flag provided but not defined: -servers (-h lists the flags)\n", string(out))

	out, err = ensemble(t, nil, "-h").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "usage: ensemble [flags]")
}

func TestImageIsPrintedAlone(t *testing.T) {
	name, err := image.Name(t.Context())
	need.Backend(t, "docker", err)
	out, err := ensemble(t, nil, "-image").Output()
	require.NoError(t, err)
	require.Equal(t, name+"\n", string(out))
}

func TestReleaseThatNamesNoReleaseIsRefused(t *testing.T) {
	cmd := ensemble(t, nil, "-image", "-release", "trixie; true")
	cmd.Stderr = nil
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), `release "trixie; true" is not the name of a release of Debian, such as trixie`)
}
