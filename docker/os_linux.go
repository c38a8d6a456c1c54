// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const (
	stopSignal = syscall.SIGSTOP
	contSignal = syscall.SIGCONT
)

// killWithParent makes the kernel kill cmd when this process dies, however it dies. An interrupt from a terminal, which its whole process
// group gets, does not end cmd: a program that uses the servers may need them in order to end.
func killWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// endWithContext makes the end of its context terminate cmd and what it has started.
func endWithContext(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
}

// mountMemory mounts a file system in memory.
func mountMemory(dir string, size int64) error {
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0755", size))
	if err != nil {
		return fmt.Errorf("mounting a file system in memory: %w: %w", err, ErrUnsupported)
	}
	return nil
}

// unmount undoes mountMemory. It is no error if nothing is mounted, as where this process may not mount, or if another sweep has removed dir.
func unmount(dir string) error {
	err := syscall.Unmount(dir, syscall.MNT_DETACH)
	if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("unmounting %s: %w", dir, err)
	}
	return nil
}

// namespacesAvailable returns an error that names what is missing for network namespaces.
func namespacesAvailable() error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root")
	}
	_, err := exec.LookPath("ip")
	return err
}
