// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// A group is the process group of a command, by the process id of its leader.
//
// A group whose processes have all ended needs no signal: that is no error.
type group int

// prepare makes the command the leader of its own process group, in the foreground of the
// terminal if that is not nil.
func prepare(cmd *exec.Cmd, terminal *os.File) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if terminal != nil {
		cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, int(terminal.Fd())
	}
	prepareSystem(cmd)
}

// notifyStops delivers the signals by which a terminal stops and continues processes. On Linux, one that the parent process has set to
// be ignored stays ignored, here and for the command.
func notifyStops(signals chan<- os.Signal) {
	for _, s := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGCONT} {
		if !isIgnored(s) {
			signal.Notify(signals, s)
		}
	}
}

// send sends a signal to the processes of the group. It returns an error if this process may signal none of them, as under sudo.
func (g group) send(s os.Signal) error {
	n, ok := s.(syscall.Signal)
	if !ok {
		return nil
	}
	if err := syscall.Kill(-int(g), n); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send signal %d to process group %d: %w", n, g, err)
	}
	return nil
}

// forward sends a signal to all processes of the group. Stopped ones continue, and handle it.
func (g group) forward(s os.Signal) error {
	err := g.send(s)
	if s != syscall.SIGTSTP {
		_ = g.send(syscall.SIGCONT) // it fails as s did, or since s has ended them
	}
	return err
}

// terminate asks all processes of the group to end, stopped ones too.
func (g group) terminate() error { return g.forward(syscall.SIGTERM) }

// kill kills all processes of the group.
func (g group) kill() error { return g.send(syscall.SIGKILL) }

// end kills what remains of the group when its leader has ended, and waits for those
// processes that are children of this process by then: on Linux, all of them. It reports an error before it waits, as the wait is also
// for processes that this one may not kill.
func (g group) end(report func(error)) {
	report(g.kill())
	for {
		_, err := syscall.Wait4(-int(g), nil, 0, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
