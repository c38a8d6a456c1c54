// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
)

// waitForAll waits for the end of a command, and until then for every other child that ends: orphans whose parent this process has
// become would remain zombies. The status of a command that was killed is the one that shells use.
//
// The wait for any child may also take the status of a guardian, which its starter does not use. It must be the only wait for the
// command: another one could take the command's status.
func waitForAll(cmd *exec.Cmd) end {
	wait, err := waitFor(cmd.Process.Pid)
	_ = cmd.Wait() // it finds no process, and waits for streams that are no files
	if err != nil {
		return end{err: internal(fmt.Errorf("wait for the command: %w", err))}
	}
	if wait.Signaled() {
		return end{status: statusSignalled + int(wait.Signal())}
	}
	return end{status: wait.ExitStatus()}
}

// waitFor waits for children until the one with that process id has ended.
func waitFor(pid int) (status syscall.WaitStatus, err error) {
	for {
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case ended == pid:
			return status, nil
		case err != nil && !errors.Is(err, syscall.EINTR):
			return status, err
		}
	}
}
