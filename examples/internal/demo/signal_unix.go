// SPDX-License-Identifier: Apache-2.0

//go:build unix

package demo

import (
	"os"
	"os/exec"
	"syscall"
)

// separate puts a player into a process group of its own: an interrupt from the terminal is the director's to heed, and
// if the director is killed, the kernel ends the group that nobody is left to continue, even while it is frozen.
func separate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func stopProcess(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func continueProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
