// SPDX-License-Identifier: Apache-2.0

//go:build unix

package lab

import (
	"os/exec"
	"syscall"
)

// setGroup gives a contender its own process group. Ctrl-C at the terminal then reaches the laboratory only, which ends it. And if the
// laboratory is killed, the system continues and hangs up a contender that is paused, as the rest of an orphaned group.
func setGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
