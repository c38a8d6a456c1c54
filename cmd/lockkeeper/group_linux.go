// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"syscall"
)

// prepareSystem has the kernel kill the command if this process is killed, as nothing
// would end the command with the hold then. Processes of the group whose parents have
// ended become children of this process, so that it can wait for them.
func prepareSystem(cmd *exec.Cmd) {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER of prctl(2)
	// Kernels before 3.4 refuse: init then waits for these processes.
	_, _, _ = syscall.Syscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0)
}
