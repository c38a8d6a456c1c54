// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

const (
	stopSignal = syscall.SIGSTOP
	contSignal = syscall.SIGCONT
)

// dieWithParent makes the kernel kill cmd when this process dies, however it dies.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// canWire says what is missing for network namespaces, or nil.
func canWire() error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root")
	}
	_, err := exec.LookPath("ip")
	return err
}
