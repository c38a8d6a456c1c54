// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package stores

import "syscall"

// attributes returns attributes with which a process runs as u. Only on Linux does the process also end with this one.
func attributes(u *user) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{}
	if u != nil {
		a.Credential = &syscall.Credential{Uid: u.uid, Gid: u.gid}
	}
	return a
}

// signal sends a signal to the first process only. PostgreSQL's other processes end soon after it, and are not paused with it.
func (p *process) signal(s syscall.Signal) ([]int, error) { return nil, p.cmd.Process.Signal(s) }

// ended always reports true: signal returns no children.
func ended(int) bool { return true }
