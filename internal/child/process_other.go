// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package child

import (
	"errors"
	"os"
	"os/exec"
)

// group has no effect: only Unix has process groups. Elsewhere only the process itself is killed.
func group(cmd *exec.Cmd) { cmd.Cancel = func() error { return cmd.Process.Kill() } }

// Stop returns [errors.ErrUnsupported].
func (*Process) Stop() error { return errors.ErrUnsupported }

// Continue returns [errors.ErrUnsupported].
func (*Process) Continue() error { return errors.ErrUnsupported }

// Killed reports whether err, of [exec.Cmd.Wait], is the end of a process by force: elsewhere than on Unix, status 1.
func Killed(err error) bool {
	exit := new(exec.ExitError)
	return errors.As(err, &exit) && exit.ExitCode() == 1
}

// Die kills this process. It does not return.
func Die() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}
