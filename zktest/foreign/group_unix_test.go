// SPDX-License-Identifier: Apache-2.0

//go:build unix

package foreign

import (
	"os/exec"
	"syscall"
)

// inOneGroup puts the process into its own process group, with all of its children, and kills the group when the
// context ends.
func inOneGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
