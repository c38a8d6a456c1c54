// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// A group is the process group of a command, by the process id of its leader.
//
// Its methods ignore errors: a group whose processes have all ended needs no signal.
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

// send sends a signal to all processes of the group.
func (g group) send(s os.Signal) {
	if n, ok := s.(syscall.Signal); ok {
		_ = syscall.Kill(-int(g), n)
	}
}

// terminate asks all processes of the group to end, stopped ones too.
func (g group) terminate() {
	g.send(syscall.SIGTERM)
	g.send(syscall.SIGCONT)
}

// kill kills all processes of the group.
func (g group) kill() { g.send(syscall.SIGKILL) }

// end kills what remains of the group when its leader has ended, and waits for those
// processes that are children of this process by then: on Linux, all of them.
func (g group) end() {
	g.kill()
	for {
		_, err := syscall.Wait4(-int(g), nil, 0, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
