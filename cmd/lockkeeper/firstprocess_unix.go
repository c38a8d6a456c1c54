// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
)

// forwardedSignals returns the signals that the first process of a container passes to its command.
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
	if err := cmd.Start(); err != nil {
		return 0, startError(err)
	}
	defer reclaim(terminal)
	ended := make(chan error, 1)
	go func() {
		// Not cmd.Wait: another wait for any child would take the status from it.
		wait, err := waitFor(cmd.Process.Pid)
		status = wait.ExitStatus()
		if wait.Signaled() {
			status = statusSignalled + int(wait.Signal())
		}
		ended <- err
	}()
	for {
		select {
		case err := <-ended:
			return status, err
		case received := <-signals:
			group(cmd.Process.Pid).send(received)
		}
	}
}

// waitFor waits for children until the one with that process id has ended.
func waitFor(pid int) (status syscall.WaitStatus, err error) {
	for {
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case ended == pid:
			return status, nil
		case err != nil && !errors.Is(err, syscall.EINTR):
			return status, internal(fmt.Errorf("wait for the command: %w", err))
		}
	}
}
