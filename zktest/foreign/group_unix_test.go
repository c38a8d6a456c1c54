// SPDX-License-Identifier: Apache-2.0

//go:build unix

package foreign

import (
	"os/exec"
	"syscall"
)

// inOneGroup puts the process into a group with all that it starts, and has the group killed when its context ends.
func inOneGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
