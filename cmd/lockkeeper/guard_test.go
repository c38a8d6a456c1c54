// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/recipes/guard"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// guardedRole holds the lock /ledger, with the guardian at a socket, until it is killed or its standard input ends.
var guardedRole = child.New("guarded", func(socket string) error {
	ctx := context.Background()
	g, err := guard.Dial(ctx, socket)
	if err != nil {
		return err
	}
	client, err := recipes.Connect(ctx, []string{os.Getenv(serversVariable)}, &recipes.Options{SessionTimeout: 20 * time.Second, Guard: g})
	if err != nil {
		return err
	}
	mu, err := lock.New(client, "/ledger", nil)
	if err != nil {
		return err
	}
	if _, err := mu.Lock(ctx); err != nil {
		return err
	}
	fmt.Println("held")
	for bufio.NewScanner(os.Stdin).Scan() {
	}
	os.Exit(7) // without Close
	return nil
})

// startGuarded starts servers that count the sessions that expire.
func startGuarded(t *testing.T) (ensemble *zktest.Ensemble, expired *atomic.Int64) {
	t.Helper()
	expired = &atomic.Int64{}
	return startServers(t, &zktest.Options{Tick: 2 * time.Second, OnCommit: func(c zktest.Commit) {
		if c.Op == "closeSession" && c.Expired {
			expired.Add(1)
		}
	}}), expired
}

// lockLedger takes the lock /ledger, and releases it at the end of the test.
func lockLedger(t *testing.T, ensemble *zktest.Ensemble) {
	t.Helper()
	mu, err := lock.New(clientOf(t, ensemble, "next"), "/ledger", nil)
	require.NoError(t, err)
	hold, err := mu.Lock(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, hold.Unlock(context.WithoutCancel(t.Context()))) })
}

// The command ignores every signal that it can, and its processes outlive their parents.
func TestProcessesOfKilledRunNeverWriteAfterTheNextGrant(t *testing.T) {
	t.Parallel()
	ensemble, expired := startGuarded(t)
	file := filepath.Join(t.TempDir(), "written")
	p := startProcess(t, ensemble, "run", "--guard", "--lock", "/ledger", "--session-timeout", "20s", "--", "sh", "-c",
		`trap go=1 TERM; echo started; while [ -z "$go" ]; do sleep 0.01; done; trap '' TERM HUP INT; `+
			`for i in 1 2 3; do sh -c 'trap "" TERM HUP INT; echo ready; while :; do echo $$ >> `+file+`; done' & done; wait`)
	require.Eventually(t, func() bool { return strings.Contains(p.stdout.String(), "started") }, time.Minute, time.Millisecond)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM)) // it is forwarded once the guardian knows the group
	require.Eventually(t, func() bool { return strings.Count(p.stdout.String(), "ready") == 3 }, time.Minute, time.Millisecond)
	require.NoError(t, p.cmd.Process.Kill())
	lockLedger(t, ensemble)
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, pid := range strings.Fields(string(written)) {
		stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		require.True(t, err != nil || strings.Contains(string(stat), ") Z "), "process %s lives after the next grant", pid)
	}
	later, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, len(written), len(later))
	require.Zero(t, expired.Load())
	require.Equal(t, -1, p.status())
}

func TestRunWithGuardianExitsWithStatusOfItsCommand(t *testing.T) {
	t.Parallel()
	ensemble, _ := startGuarded(t)
	p := startProcess(t, ensemble, "run", "--guard", "--lock", "/ledger", "--", "sh", "-c", "echo ran; exit 3")
	require.Equal(t, 3, p.status())
	require.Equal(t, "ran\n", p.stdout.String())
	require.Empty(t, p.stderr.String())
	require.Empty(t, ensemble.Sessions())
}

func TestRunWhoseGuardianCannotCloseSessionsExitsWithStatus70(t *testing.T) {
	t.Parallel()
	keeper := startServers(t, &zktest.Options{Personality: zktest.Keeper})
	p := startProcess(t, keeper, "run", "--guard", "--lock", "/ledger", "--", "true")
	require.Equal(t, statusInternal, p.status())
	require.Contains(t, p.stderr.String(), "the server opened another session")
}

func TestSidecarClosesTheSessionOfKilledProcess(t *testing.T) {
	t.Parallel()
	ensemble, expired := startGuarded(t)
	socket := filepath.Join(t.TempDir(), "guard")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	require.NoError(t, err)
	stale.SetUnlinkOnClose(false)
	require.NoError(t, stale.Close()) // its file remains, as that of a killed sidecar does
	sidecar := newCommand(t, "guard", "--socket", socket)
	sidecar.start()
	require.Eventually(t, func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "unix", socket)
		return err == nil && conn.Close() == nil
	}, time.Minute, time.Millisecond)
	cmd := guardedRole.Command(t.Context(), socket)
	cmd.Env = append(cmd.Env, serversVariable+"="+connectString(ensemble))
	p, err := child.Start(t, cmd)
	require.NoError(t, err)
	_, err = p.Await(t.Context(), "held")
	require.NoError(t, err)
	p.Kill()
	lockLedger(t, ensemble)
	require.Zero(t, expired.Load())
	require.NoError(t, sidecar.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, statusOK, sidecar.status())
	require.NoFileExists(t, socket)
}

func TestSidecarServesAfterTheReaderOfItsReportsHasGone(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	socket := filepath.Join(t.TempDir(), "guard")
	sidecar := newCommand(t, "guard", "--socket", socket)
	sidecar.cmd.Stderr = writer
	sidecar.start()
	require.NoError(t, writer.Close())
	var conn net.Conn
	require.Eventually(t, func() bool {
		conn, err = new(net.Dialer).DialContext(t.Context(), "unix", socket)
		return err == nil
	}, time.Minute, time.Millisecond)
	_, err = io.WriteString(conn, "no greeting\n")
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, conn) // until it is refused, which is reported; the connection can be reset
	require.NoError(t, conn.Close())
	require.NoError(t, sidecar.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, statusOK, sidecar.status())
}

// The role inherits the environment of the guardian, other than the variable that has the test binary run main.
func TestGuardedCommandHandsOverWithItsEnd(t *testing.T) {
	t.Parallel()
	ensemble, expired := startGuarded(t)
	role := guardedRole.Command(t.Context(), "")
	p := newProcess(t, ensemble, "guard", "--", "env", "-u", mainVariable, role.Path)
	p.cmd.Env = append(role.Env, p.cmd.Env...)
	stdin, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	p.start()
	p.awaitOutput("held")
	require.NoError(t, stdin.Close())
	require.Equal(t, 7, p.status())
	require.Empty(t, ensemble.Sessions(), "the session is closed before the guardian ends")
	require.Zero(t, expired.Load())
}

func TestGuardForwardsSignalsAndExitsWithStatusOfItsCommand(t *testing.T) {
	t.Parallel()
	p := newCommand(t, "guard", "--", "sh", "-c", `trap 'exit 5' TERM; (sleep 0.01 &); echo "ready $LOCKKEEPER_GUARD"; while :; do sleep 0.01; done`)
	p.start()
	p.awaitOutput("ready @lockkeeper-guard-")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 5, p.status())

	p = newCommand(t, "guard", "--", "sh", "-c", "kill -KILL $$")
	p.start()
	require.Equal(t, statusSignalled+9, p.status())
	p = newCommand(t, "guard", "--", "no-such-command")
	p.start()
	require.Equal(t, statusNotFound, p.status())
}

func TestGuardNeedsEitherASocketOrACommand(t *testing.T) {
	for _, args := range [][]string{{"guard"}, {"guard", "--socket", "/tmp/s", "--", "true"}} {
		status, _, stderr := runInProcess(t, startServers(t, nil), args...)
		require.Equal(t, statusUsage, status)
		require.Contains(t, stderr, "either --socket or a command is needed")
	}
}

// Its signal may have come before guard could forward it.
func TestGuardThatIsInterruptedBeforeTheStartDoesNotStartItsCommand(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancelCause(t.Context())
	interrupt(errors.New("terminated signal received"))
	started := filepath.Join(t.TempDir(), "started")
	var stderr syncBuffer
	status := run(ctx, []string{"guard", "--", "touch", started}, nil, io.Discard, &stderr)
	require.NoFileExists(t, started)
	require.Equal(t, statusFailed, status)
	require.Equal(t, "lockkeeper: guard: start touch: terminated signal received\n", stderr.String())
}
