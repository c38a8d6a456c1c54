// SPDX-License-Identifier: Apache-2.0

//go:build unix

package child

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
)

// group puts the process into its own process group, with all that it starts, and kills the group when ctx ends. If this
// process is killed, the kernel ends the orphaned group even while it is stopped.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// Stop stops the process, and returns once it stands still: a signal takes a while to arrive.
func (p *Process) Stop() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop process %d: %w", p.Pid(), err)
	}
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(p.Pid(), &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("stop process %d: %w", p.Pid(), err)
		case !status.Stopped():
			return fmt.Errorf("stop process %d: it has ended: %v", p.Pid(), status)
		default:
			return nil
		}
	}
}

// Continue lets a stopped process continue.
func (p *Process) Continue() error { return p.Signal(syscall.SIGCONT) }

// Killed reports whether err, of [exec.Cmd.Wait], is the end of a process by SIGKILL.
func Killed(err error) bool {
	exit := new(exec.ExitError)
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Die kills this process as kill -9 does. It does not return.
func Die() {
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL) // a process may always signal itself
	select {}
}
