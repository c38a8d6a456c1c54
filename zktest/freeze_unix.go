// SPDX-License-Identifier: Apache-2.0

//go:build unix

package zktest

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Freeze stops a child process, and returns once it stands still: a signal takes a while to arrive. A frozen process is what a
// lock must bear: its session expires, another client is granted the lock, and when the process continues, it first writes with
// an old token. Thaw a process before it is frozen again: Freeze waits for it to stop. On other systems than Unix the error matches [errors.ErrUnsupported].
func Freeze(child *os.Process) error {
	if err := child.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("zktest: freeze process %d: %w", child.Pid, err)
	}
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(child.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("zktest: freeze process %d: %w", child.Pid, err)
		case !status.Stopped():
			return fmt.Errorf("zktest: freeze process %d: it has ended: %v", child.Pid, status)
		default:
			return nil
		}
	}
}

// Thaw lets a frozen process continue.
func Thaw(child *os.Process) error { return child.Signal(syscall.SIGCONT) }
