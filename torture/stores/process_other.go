// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package stores

import "syscall"

// attributes cannot tie what they start to this process: only Linux can.
func attributes(u *user) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{}
	if u != nil {
		a.Credential = &syscall.Credential{Uid: u.uid, Gid: u.gid}
	}
	return a
}

// signal reaches the first process alone: PostgreSQL's others end by themselves soon after it, and are not paused.
func (p *process) signal(s syscall.Signal) ([]int, error) { return nil, p.cmd.Process.Signal(s) }

func ended(int) bool { return true }
