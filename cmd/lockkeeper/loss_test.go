// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// requireGone waits until the process with the id in text does not exist, or has ended and
// is only waited for by init.
func requireGone(t *testing.T, text string) {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil }, time.Minute, 5*time.Millisecond, "process %d runs", pid)
}

func TestCommandGetsTERMWhenHoldIsLost(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"--lock", "--elect"} {
		ensemble := startServers(t, &zktest.Options{Tick: 2 * time.Second})
		p := startProcess(t, ensemble, "run", kind, "/ledger", "--session-timeout", "40s", "--", "sh", "-c",
			`trap 'echo stopped cleanly; exit 0' TERM; echo ready; while :; do sleep 0.01; done`)
		p.awaitOutput("ready")
		expireAll(t, ensemble)
		require.Equal(t, statusLost, p.status())
		require.Contains(t, p.stdout.String(), "stopped cleanly")
		require.Contains(t, p.stderr.String(), "run: hold /ledger: claim lost: session expired (reported by the server): the command gets SIGTERM, and SIGKILL in 5s\n")
	}
}

func TestCommandThatIgnoresTERMIsKilledWithItsChildren(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, &zktest.Options{Tick: time.Second})
	p := startProcess(t, ensemble, "run", "--lock", "/ledger", "--session-timeout", "20s", "--", "sh", "-c",
		`trap '' TERM; sh -c 'echo $$; while :; do sleep 0.01; done' & echo $$; echo ready; while :; do sleep 0.01; done`)
	p.awaitOutput("ready")
	require.Eventually(t, func() bool { return strings.Count(p.stdout.String(), "\n") == 3 }, time.Minute, time.Millisecond)
	began := time.Now()
	expireAll(t, ensemble)
	require.Equal(t, statusLost, p.status())
	require.GreaterOrEqual(t, time.Since(began), 2500*time.Millisecond, "SIGTERM came first, and an eighth of the session timeout to stop")
	require.Contains(t, p.stderr.String(), "the command ended with status 137")
	for _, text := range strings.Fields(strings.ReplaceAll(p.stdout.String(), "ready", "")) {
		requireGone(t, text)
	}
}

func TestBlockedStandardErrorDelaysNoSignal(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	full := make([]byte, 1<<16)
	_, err = writer.Write(full)
	require.NoError(t, err)
	p := newProcess(t, ensemble, "run", "--lock", "/ledger", "--session-timeout", "10s", "--", "sh", "-c", `trap '' TERM; echo $$; while :; do sleep 0.01; done`)
	p.cmd.Stderr = writer
	require.NoError(t, p.cmd.Start())
	require.NoError(t, writer.Close())
	require.Eventually(t, func() bool { return strings.Contains(p.stdout.String(), "\n") }, time.Minute, time.Millisecond)
	expireAll(t, ensemble)
	requireGone(t, p.stdout.String())
	read, err := io.ReadAll(reader)
	require.NoError(t, err)
	require.Equal(t, statusLost, p.status())
	require.Contains(t, string(read), "the command ended with status 137")
}

func TestClosedStandardErrorPreventsNoSignal(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	p := newProcess(t, ensemble, "run", "--lock", "/ledger", "--session-timeout", "10s", "--", "sh", "-c",
		`trap '' TERM; sh -c 'echo $$; while :; do sleep 0.01; done' & wait`)
	p.cmd.Stderr = writer
	require.NoError(t, p.cmd.Start())
	require.NoError(t, writer.Close())
	require.Eventually(t, func() bool { return strings.Contains(p.stdout.String(), "\n") }, time.Minute, time.Millisecond)
	expireAll(t, ensemble)
	require.Equal(t, statusLost, p.status())
	requireGone(t, p.stdout.String())
}

// rootRole becomes a process of root, with a set-user-ID program, and ends with its standard input.
var rootRole = child.New("root", func(struct{}) error {
	if err := syscall.Setuid(0); err != nil {
		return err
	}
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
})

func TestSignalThatCommandCannotGetIsReported(t *testing.T) {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		need.Lacking(t, "only root of Linux can install a set-user-ID program that runs as root")
	}
	t.Parallel()
	role := rootRole.Command(t.Context(), struct{}{})
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755)) // so that other users can execute the programs in it
	lockkeeper, asRoot := filepath.Join(dir, "lockkeeper"), filepath.Join(dir, "root")
	for program, mode := range map[string]string{lockkeeper: "0755", asRoot: "4755"} {
		output, err := exec.CommandContext(t.Context(), "install", "-m", mode, role.Path, program).CombinedOutput()
		require.NoError(t, err, "%s", output)
	}
	unprivileged := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	role.Path, role.SysProcAttr = asRoot, unprivileged
	if output, err := role.CombinedOutput(); err != nil {
		need.Lacking(t, "set-user-ID programs of other users do not run as root in %s: %v: %s", dir, err, output)
	}

	for name, c := range map[string]struct {
		command []string
		refused []int // signals
		status  int
	}{
		"no process gets it":  {[]string{"env", "-u", mainVariable, asRoot}, []int{15, 9}, 0},
		"its child gets none": {[]string{"env", "-u", mainVariable, "sh", "-c", `"$0"; exit`, asRoot}, []int{9}, statusSignalled + 15},
	} {
		t.Run(name, func(t *testing.T) {
			ensemble := startServers(t, nil)
			p := newProcess(t, ensemble, append([]string{"run", "--lock", "/ledger", "--"}, c.command...)...)
			p.cmd.Path, p.cmd.SysProcAttr = lockkeeper, unprivileged
			p.cmd.Env = append(role.Env, p.cmd.Env...)
			stdin, err := p.cmd.StdinPipe()
			require.NoError(t, err)
			p.start()
			p.awaitOutput("ready")
			expireAll(t, ensemble)
			for _, n := range c.refused {
				report := fmt.Sprintf(`(?m)^lockkeeper: run: send signal %d to process group \d+: operation not permitted: its processes continue without the hold$`, n)
				require.Eventually(t, func() bool { return regexp.MustCompile(report).MatchString(p.stderr.String()) }, time.Minute, 5*time.Millisecond, report)
			}
			require.NoError(t, stdin.Close())
			require.Equal(t, statusLost, p.status())
			require.Equal(t, len(c.refused), strings.Count(p.stderr.String(), "operation not permitted"), "once for each signal")
			require.Contains(t, p.stderr.String(), fmt.Sprintf("the command ended with status %d", c.status))
		})
	}
}

func TestCommandIsEndedWhenOperatorDeletesNode(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	p := startProcess(t, ensemble, "run", "--lock", "/ledger", "--", "sh", "-c", "echo ready; exec sleep 60")
	p.awaitOutput("ready")
	children, err := ensemble.Children("/ledger")
	require.NoError(t, err)
	require.NoError(t, ensemble.Delete("/ledger/"+children[0]))
	require.Equal(t, statusLost, p.status())
	require.Contains(t, p.stderr.String(), "node deleted or overwritten")
}

// An eighth of the session timeout is what a busy machine may take to send SIGKILL.
func TestCommandOfPartitionedHolderIsKilledBeforeSessionExpires(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, &zktest.Options{Tick: 4 * time.Second})
	p := startProcess(t, ensemble, "run", "--lock", "/ledger", "--session-timeout", "16s", "--", "sh", "-c",
		`trap '' TERM; echo ready; while :; do date +%s%N; done`)
	p.awaitOutput("ready")
	apply(t, ensemble, "hold 1 both")
	var expired time.Time
	require.Eventually(t, func() bool {
		expired = time.Now()
		return len(ensemble.Sessions()) == 0
	}, time.Minute, time.Millisecond)
	require.Equal(t, statusLost, p.status())
	apply(t, ensemble, "release 1")
	rows := strings.Fields(p.stdout.String())
	last, err := strconv.ParseInt(rows[len(rows)-1], 10, 64)
	require.NoError(t, err)
	require.Less(t, last, expired.UnixNano(), "the command runs until before the lock is free")
	t.Logf("the command ended %v before the session", expired.Sub(time.Unix(0, last)))
}

func TestProcessesThatCommandLeavesAreKilledBeforeRelease(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	p := startProcess(t, ensemble, "run", "--lock", "/ledger", "--", "sh", "-c", `trap '' TERM HUP; sleep 60 > /dev/null 2>&1 & echo $!`)
	require.Equal(t, statusOK, p.status())
	requireGone(t, p.stdout.String())
}

func TestCommandDiesWithKilledLockkeeper(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills a command with its parent")
	}
	t.Parallel()
	ensemble := startServers(t, nil)
	p := startProcess(t, ensemble, "run", "--lock", "/ledger", "--", "sh", "-c", `echo $$; exec sleep 60`)
	require.Eventually(t, func() bool { return strings.Contains(p.stdout.String(), "\n") }, time.Minute, time.Millisecond)
	require.NoError(t, p.cmd.Process.Kill())
	requireGone(t, p.stdout.String())
	require.Equal(t, -1, p.status())
}

func TestGraceEndsBeforeLockCanPassOn(t *testing.T) {
	const timeout = 8 * time.Second
	now := time.Now()
	for _, test := range []struct {
		name  string
		proof time.Time
		want  time.Duration
	}{
		{"usual notification", now.Add(-5 * time.Second), time.Second},
		{"earliest notification", now, time.Second},
		{"notification at the limit", now.Add(-6 * time.Second), time.Second},
		{"late notification", now.Add(-6500 * time.Millisecond), 500 * time.Millisecond},
		{"notification of a paused process", now.Add(-time.Hour), 0},
		{"no proof known", time.Time{}, time.Second},
		{"clock set back", now.Add(time.Hour), time.Second},
	} {
		require.Equal(t, test.want, graceOf(now, test.proof, timeout), test.name)
	}
}
