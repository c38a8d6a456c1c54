// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// openTerminal returns the two ends of a pseudo-terminal.
func openTerminal(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, keyboard.Close()) })
	var unlocked, number int32
	for request, value := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlocked, syscall.TIOCGPTN: &number} {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, keyboard.Fd(), request, uintptr(unsafe.Pointer(value)))
		require.Zero(t, errno)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, terminal.Close()) })
	return keyboard, terminal
}

// atTerminal starts a shell script that runs the command of the environment variable
// LOCKKEEPER, in a session of the terminal.
func atTerminal(t *testing.T, script string) (p *process, keyboard *os.File) {
	t.Helper()
	return atTerminalOf(t, startServers(t, nil), script)
}

// atTerminalOf is atTerminal with an ensemble.
func atTerminalOf(t *testing.T, ensemble *zktest.Ensemble, script string) (p *process, keyboard *os.File) {
	t.Helper()
	p = newProcess(t, ensemble)
	keyboard, terminal := openTerminal(t)
	p.cmd.Env = append(p.cmd.Env, "LOCKKEEPER="+p.cmd.Path)
	p.cmd.Path, p.cmd.Args = "/bin/sh", []string{"sh", "-c", script}
	p.cmd.Stdin = terminal
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, p.cmd.Start())
	return p, keyboard
}

func TestCommandReadsFromTerminalAndGivesItBack(t *testing.T) {
	t.Parallel()
	p, keyboard := atTerminal(t, `$LOCKKEEPER run --lock /ledger -- sh -c 'echo ready; read x; echo command got $x'; read x; echo shell got $x`)
	p.awaitOutput("ready\n")
	_, err := io.WriteString(keyboard, "one\n")
	require.NoError(t, err)
	p.awaitOutput("command got one\n")
	_, err = io.WriteString(keyboard, "two\n")
	require.NoError(t, err)
	require.Equal(t, statusOK, p.status())
	require.Contains(t, p.stdout.String(), "shell got two\n")
}

func TestInterruptAtTerminalReachesCommand(t *testing.T) {
	t.Parallel()
	p, keyboard := atTerminal(t, `$LOCKKEEPER run --lock /ledger -- sh -c 'trap "exit 9" INT; echo ready; while :; do sleep 0.01; done'; echo status $?`)
	p.awaitOutput("ready\n")
	_, err := keyboard.Write([]byte{3}) // Ctrl-C
	require.NoError(t, err)
	require.Equal(t, statusOK, p.status())
	require.Contains(t, p.stdout.String(), "status 9\n")
}

// The system executes no script without a first line that names its interpreter. The child has taken the terminal by then.
func TestTerminalIsGivenBackIfTheCommandCannotBeExecuted(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("echo ran\n"), 0o700))
	for _, command := range []string{"run --lock /ledger", "guard"} {
		p, keyboard := atTerminal(t, "$LOCKKEEPER "+command+" -- "+script+"; echo status $?; read x; echo got $x")
		p.awaitOutput("status 126\n")
		_, err := io.WriteString(keyboard, "one\n")
		require.NoError(t, err)
		require.Equal(t, statusOK, p.status())
		require.Contains(t, p.stdout.String(), "got one\n", command)
	}
}

// ignoresWarnings reports whether a process ignores the stop by which a terminal answers a write of a background process.
func ignoresWarnings(t *testing.T, pid string) bool {
	t.Helper()
	status, err := os.ReadFile("/proc/" + pid + "/status")
	require.NoError(t, err)
	_, row, _ := strings.Cut(string(status), "\nSigIgn:")
	row, _, _ = strings.Cut(row, "\n")
	ignored, err := strconv.ParseUint(strings.TrimSpace(row), 16, 64)
	require.NoError(t, err)
	return ignored&(1<<(syscall.SIGTTOU-1)) != 0
}

// awaitWarner waits until the command has printed "ready", the ids of its parent and of itself and more, and the parent ignores the
// stop. It returns what was printed after "ready".
func awaitWarner(t *testing.T, p *process) []string {
	t.Helper()
	p.awaitOutput("\n")
	fields := strings.Fields(p.stdout.String())
	require.Equal(t, "ready", fields[0])
	require.Eventually(t, func() bool { return ignoresWarnings(t, fields[1]) }, time.Minute, 5*time.Millisecond)
	require.False(t, ignoresWarnings(t, fields[2]), "the command does not inherit it")
	return fields[1:]
}

// The shell has job control: the terminal stops no process group that no parent would continue.
func TestWarningOnTerminalOfItsCommandDoesNotStopLockkeeper(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	p, keyboard := atTerminalOf(t, ensemble, `set -m; stty tostop; $LOCKKEEPER run --lock /ledger --session-timeout 10s -- `+
		`sh -c 'trap "" TERM; echo ready $PPID $$; while :; do sleep 0.01; done' 2>&0; echo status $?`)
	var screen syncBuffer
	go func() { _, _ = io.Copy(&screen, keyboard) }() // until the terminal is closed
	awaitWarner(t, p)
	expireAll(t, ensemble)
	require.Equal(t, statusOK, p.status())
	require.Contains(t, p.stdout.String(), "status 75\n")
	require.Eventually(t, func() bool {
		return strings.Contains(screen.String(), "the command gets SIGTERM") && strings.Contains(screen.String(), "the command ended with status 137")
	}, time.Minute, 5*time.Millisecond, &screen)
}

func TestReportOnTerminalOfItsCommandDoesNotStopGuard(t *testing.T) {
	t.Parallel()
	p, keyboard := atTerminal(t, `set -m; stty tostop; $LOCKKEEPER guard -- sh -c 'echo "ready $PPID $$ $LOCKKEEPER_GUARD"; read x' 2>&0; echo status $?`)
	conn, err := new(net.Dialer).DialContext(t.Context(), "unix", awaitWarner(t, p)[2])
	require.NoError(t, err)
	_, err = io.WriteString(conn, "no greeting\n")
	require.NoError(t, err)
	lines := bufio.NewScanner(keyboard)
	require.True(t, lines.Scan(), "the report")
	require.Contains(t, lines.Text(), "lockkeeper: guard: ")
	require.NoError(t, conn.Close())
	_, err = io.WriteString(keyboard, "end\n")
	require.NoError(t, err)
	require.Equal(t, statusOK, p.status())
	require.Contains(t, p.stdout.String(), "status 0\n")
}
