// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
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

// isIgnored reports whether this process ignores a signal. signal.Ignored does not know of stops that the parent process has set to be
// ignored.
func isIgnored(s syscall.Signal) bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false // without /proc, it cannot be known
	}
	_, row, _ := strings.Cut(string(status), "\nSigIgn:")
	row, _, _ = strings.Cut(row, "\n")
	ignored, err := strconv.ParseUint(strings.TrimSpace(row), 16, 64)
	return err == nil && ignored>>(s-1)&1 == 1
}
