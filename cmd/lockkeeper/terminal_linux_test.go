// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
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
	p = newProcess(t, startServers(t, nil))
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
