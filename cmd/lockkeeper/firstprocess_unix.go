// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
)

// forwardedSignals returns the signals that the first process of a container passes to its command. SIGHUP or SIGINT stays
// ignored if the parent process has set it to be. Go does not show whether others are ignored.
func forwardedSignals() []os.Signal {
	return slices.DeleteFunc([]os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT,
	}, signal.Ignored)
}

// runFirst runs a command as the first process of a container does: it forwards signals to its process group, and waits for every
// child, orphans too. It returns the status of the command.
func runFirst(cmd *exec.Cmd, signals <-chan os.Signal) (status int, err error) {
	terminal := foregroundOf(cmd.Stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if terminal != nil {
		cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, int(terminal.Fd())
	}
	defer reclaim(terminal) // also from a child whose program is not executed
	if err := cmd.Start(); err != nil {
		return 0, startError(err)
	}
	outliveWarnings()
	ended := make(chan end, 1)
	go func() { ended <- waitForAll(cmd) }()
	for {
		select {
		case e := <-ended:
			return e.status, e.err
		case received := <-signals:
			_ = group(cmd.Process.Pid).send(received) // no hold depends on it
		}
	}
}
