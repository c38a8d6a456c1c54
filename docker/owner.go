// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// owner identifies the process that created an object: by the machine, the process id and the
// time at which the process began, because ids are reused. A later process removes the
// objects of processes that have ended.
type owner struct {
	host  string // the machine and its namespace of process ids
	pid   int
	began string // clock ticks since boot; "" where that is not known
}

var self = sync.OnceValue(func() owner {
	return owner{host: hostID(), pid: os.Getpid(), began: processStart(os.Getpid())}
})

func (o owner) String() string { return o.host + "/" + o.process() }

// process returns what identifies the process, as a part of a file name: in a folder that containers share, the same id is another
// process in each.
func (o owner) process() string { return fmt.Sprintf("%d-%s-%s", o.pid, o.began, o.place()) }

// place returns a short name of the host.
func (o owner) place() string { return fmt.Sprintf("%.4x", sha256.Sum256([]byte(o.host))) }

// parseProcess parses the result of process.
func parseProcess(s string) (pid int, began, place string, err error) {
	parts := strings.Split(s, "-")
	if len(parts) == 3 {
		pid, err = strconv.Atoi(parts[0])
	}
	if pid < 1 || err != nil {
		return 0, "", "", fmt.Errorf("%q does not name a process", s)
	}
	return pid, parts[1], parts[2], nil
}

// orphaned reports whether label names a process of this machine that has ended.
// On an engine that several machines share, each machine removes its own objects.
func orphaned(label string) bool {
	at := strings.LastIndex(label, "/")
	return at >= 0 && label[:at] == self().host && ended(label[at+1:])
}

// ended reports whether a process of this machine has ended, given the result of process.
func ended(process string) bool {
	pid, began, place, err := parseProcess(process)
	if err != nil || place != self().place() {
		return false
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return true
	}
	if err := p.Signal(syscall.Signal(0)); errors.Is(err, os.ErrProcessDone) {
		return true
	}
	now := processStart(pid) // "" if /proc hides the processes of other users
	return began != "" && now != "" && now != began
}

func hostID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	// Many machines are named localhost; the contents of these files are unique.
	if id, err := os.ReadFile("/etc/machine-id"); err == nil {
		host += ":" + strings.TrimSpace(string(id))
	}
	if ns, err := os.Readlink("/proc/self/ns/pid"); err == nil {
		host += ":" + ns
	}
	return host
}

// processStart returns the start time in /proc/PID/stat, which is the 22nd field. It counts
// from the end of the command, which may contain blanks and parentheses.
func processStart(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:]))
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}

// ownerOf returns the process in a name that consists of prefix, process and a suffix; "" if
// the name has another form.
func ownerOf(name, prefix string) string {
	rest, ok := strings.CutPrefix(name, prefix)
	parts := strings.SplitN(rest, "-", 4)
	if !ok || len(parts) < 4 {
		return ""
	}
	return strings.Join(parts[:3], "-")
}
