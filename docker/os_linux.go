// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"errors"
	"fmt"
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

// mountMemory mounts a file system in memory.
func mountMemory(dir string, size int64) error {
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0755", size))
	if err != nil {
		return fmt.Errorf("mounting a file system in memory: %w: %w", err, ErrUnsupported)
	}
	return nil
}

// unmount removes a mount. It does nothing if there is none.
func unmount(dir string) error {
	err := syscall.Unmount(dir, syscall.MNT_DETACH)
	if err != nil && !errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("unmounting %s: %w", dir, err)
	}
	return nil
}

// canWire returns nil if network namespaces can be created, else an error that names what
// is missing.
func canWire() error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root")
	}
	_, err := exec.LookPath("ip")
	return err
}
