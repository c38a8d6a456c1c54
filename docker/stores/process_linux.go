// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// attributes makes the kernel kill what they start when this process dies, however it dies, and let it run as u.
func attributes(u *user) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if u != nil {
		a.Credential = &syscall.Credential{Uid: u.uid, Gid: u.gid}
	}
	return a
}

// signal reaches the process and its children: PostgreSQL has one for each connection, in a session of its own, which
// goes on for a while when the first process alone is killed or stopped. That one stands still before its children are
// looked for, so that no further ones come.
func (p *process) signal(s syscall.Signal) error {
	first := p.cmd.Process
	if err := first.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	var errs []error
	for _, child := range children(first.Pid) {
		if err := syscall.Kill(child, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, first.Signal(s))...)
}

// children are the processes that parent has started: the fourth field of /proc/PID/stat, counted past the command,
// which may itself hold blanks and parentheses.
func children(parent int) []int {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var found []int
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			found = append(found, pid)
		}
	}
	return found
}
