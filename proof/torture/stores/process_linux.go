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
	"time"
)

// attributes returns attributes with which a process runs as u, and the kernel kills it when this process ends, however it
// ends.
func attributes(u *user) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if u != nil {
		a.Credential = &syscall.Credential{Uid: u.uid, Gid: u.gid}
	}
	return a
}

// signal sends a signal to the process and its children, and returns the children. PostgreSQL has one for each connection, in
// its own session, which continues for a while if only the first process is killed or stopped. signal stops the first process
// before it lists the children, so that no further ones are started. After SIGSTOP, all have stopped when signal returns.
func (p *process) signal(s syscall.Signal) ([]int, error) {
	first := p.cmd.Process
	if err := first.Signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	awaitStopped(first.Pid)
	all := children(first.Pid)
	var errs []error
	for _, child := range all {
		if err := syscall.Kill(child, s); err != nil && !errors.Is(err, syscall.ESRCH) {
			errs = append(errs, err)
		}
	}
	if s == syscall.SIGSTOP {
		for _, child := range all {
			awaitStopped(child)
		}
	}
	return all, errors.Join(append(errs, first.Signal(s))...)
}

// awaitStopped returns when a process has stopped or ended: on a busy machine, it runs for a while after SIGSTOP was sent. It
// gives up after a bound, because a process that waits for a disk does not stop, and does not run either.
func awaitStopped(pid int) {
	for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(100 * time.Microsecond) {
		if state, _ := status(pid); state == "T" || state == "t" || ended(pid) {
			return
		}
	}
}

// children returns the processes that parent has started.
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

// status returns the third and the fourth field of /proc/PID/stat. It counts from the end of the command, which may contain
// spaces and parentheses. Both are empty if there is no such process.
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
