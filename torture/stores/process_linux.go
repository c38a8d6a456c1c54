// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"errors"
	"fmt"
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

// signal reaches the process and its children, which it returns: PostgreSQL has one for each connection, in a session of
// its own, which goes on for a while when the first process alone is killed or stopped. That one stands still before its
// children are looked for, so that no further ones come.
func (p *process) signal(s syscall.Signal) ([]int, error) {
	first := p.cmd.Process
	if err := first.Signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	all := children(first.Pid)
	var errs []error
	for _, child := range all {
		if err := syscall.Kill(child, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	return all, errors.Join(append(errs, first.Signal(s))...)
}

// children are the processes that parent has started.
func children(parent int) []int {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var found []int
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		if _, by := status(pid); by == strconv.Itoa(parent) {
			found = append(found, pid)
		}
	}
	return found
}

// ended reports whether a process has ended, even if its parent has not waited for it yet.
func ended(pid int) bool {
	state, _ := status(pid)
	return state == "" || state == "Z" || state == "X"
}

// status is the third and the fourth field of /proc/PID/stat, counted past the command, which may itself hold blanks and
// parentheses; both are empty if there is no such process.
func status(pid int) (state, parent string) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", ""
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 2 {
		return "", ""
	}
	return fields[0], fields[1]
}
