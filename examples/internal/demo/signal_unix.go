// SPDX-License-Identifier: Apache-2.0

//go:build unix

package demo

import (
	"os"
	"os/exec"
	"syscall"
)

// separate puts a worker process into its own process group. The supervisor alone handles an interrupt from the terminal.
// If the supervisor is killed, the kernel ends the orphaned group, even while a process in it is frozen.
func separate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func stopProcess(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func continueProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
