// SPDX-License-Identifier: Apache-2.0

package docker

import (
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
	host  string // the machine and its process id namespace
	pid   int
	began string // clock ticks since boot; "" where that is not known
}

var self = sync.OnceValue(func() owner {
	return owner{host: hostID(), pid: os.Getpid(), began: processStart(os.Getpid())}
})

func (o owner) String() string { return o.host + "/" + o.process() }

// process returns the part that identifies a process of one machine. It can be part of a
// file name.
func (o owner) process() string { return strconv.Itoa(o.pid) + "-" + o.began }

// parseProcess parses the result of process.
func parseProcess(s string) (pid int, began string, err error) {
	id, began, ok := strings.Cut(s, "-")
	pid, err = strconv.Atoi(id)
	if !ok || err != nil || pid < 1 {
		return 0, "", fmt.Errorf("%q does not name a process", s)
	}
	return pid, began, nil
}

// orphaned reports whether label names a process of this machine that has ended.
// On an engine that several machines share, each machine removes its own objects.
func orphaned(label string) bool {
	at := strings.LastIndex(label, "/")
	return at >= 0 && label[:at] == self().host && ended(label[at+1:])
}

// ended reports whether a process of this machine has ended, given the result of process.
func ended(process string) bool {
	pid, began, err := parseProcess(process)
	if err != nil {
		return false
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return true
	}
	if err := p.Signal(syscall.Signal(0)); errors.Is(err, os.ErrProcessDone) {
		return true
	}
	return began != "" && processStart(pid) != began
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
	parts := strings.SplitN(rest, "-", 3)
	if !ok || len(parts) < 3 {
		return ""
	}
	return parts[0] + "-" + parts[1]
}
