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

// owner identifies the process that created an object: the machine, the process id and
// the start of that process, because ids are reused. With it, a later process
// distinguishes the objects of a running process from those of a killed one.
type owner struct {
	host  string // the machine and its space of process ids: in a container 7 is another 7
	pid   int
	began string // clock ticks since boot; "" where that is not known
}

var self = sync.OnceValue(func() owner {
	return owner{host: hostID(), pid: os.Getpid(), began: processStart(os.Getpid())}
})

func (o owner) String() string { return o.host + "/" + o.process() }

// process returns the part that identifies a process on its machine, as part of a file
// name.
func (o owner) process() string { return strconv.Itoa(o.pid) + "-" + o.began }

// parseProcess reads what process wrote.
func parseProcess(s string) (pid int, began string, err error) {
	id, began, ok := strings.Cut(s, "-")
	pid, err = strconv.Atoi(id)
	if !ok || err != nil || pid < 1 {
		return 0, "", fmt.Errorf("%q is not a process of ours", s)
	}
	return pid, began, nil
}

// orphaned reports whether label names a process of this machine that has ended.
// On a shared engine, each machine removes its own objects.
func orphaned(label string) bool {
	at := strings.LastIndex(label, "/")
	return at >= 0 && label[:at] == self().host && ended(label[at+1:])
}

// ended reports whether a process of this machine, named as process does, is gone.
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
	// Names such as localhost are shared by many machines, these files are not.
	if id, err := os.ReadFile("/etc/machine-id"); err == nil {
		host += ":" + strings.TrimSpace(string(id))
	}
	if ns, err := os.Readlink("/proc/self/ns/pid"); err == nil {
		host += ":" + ns
	}
	return host
}

// processStart is the start time in /proc/PID/stat: the 22nd field, counted past
// the command, which may contain spaces and parentheses.
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
