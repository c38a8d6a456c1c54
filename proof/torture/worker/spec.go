// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"strings"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// SpecVariable is the environment variable in which a worker process finds its Spec, in JSON.
const SpecVariable = "LOCKKEEPER_TORTURE_WORKER"

// A Spec configures a worker process.
type Spec struct {
	Name     string          `json:"name"`     // of the contender, in each of its events
	Servers  []string        `json:"servers"`  // host:port of each, through proxies that inject faults
	Paths    []string        `json:"paths"`    // to contend for
	Timeout  history.Instant `json:"timeout"`  // of sessions, or of their equivalent
	Began    int64           `json:"began"`    // CLOCK_MONOTONIC at the beginning of the run, in nanoseconds
	First    int             `json:"first"`    // number of its first attempt, of up to a million
	Clients  int             `json:"clients"`  // that contend at the same time, with a session each
	Register string          `json:"register"` // host:port of the registers
	Seed     uint64          `json:"seed"`     // of its generator
	Harness  int             `json:"harness"`  // process id of the harness

	// ReadWrite are the Paths on which most operations use a read/write lock, Permits the Paths on which most use the permits
	// of a semaphore with PermitLimit permits, and Several those that requests for several locks take. Only this library has them.
	ReadWrite []string `json:"read_write,omitempty"`
	Permits   []string `json:"permits,omitempty"`
	Several   []string `json:"several,omitempty"`
	// Elections are the Paths on which leaders publish values and hand over, and which the process observes. Only this library
	// has that.
	Elections []string `json:"elections,omitempty"`
	// Delayed is one more path to contend for, on which all contenders have LockDelay and a fence function, empty for none. Only
	// this library has them, and callers of the lock service do not contend for it.
	Delayed string `json:"delayed,omitempty"`
	// Slots is one more path to contend for, on which most operations use slots, empty for none. The process changes their limit if
	// ResizesSlots is set. Only this library has them, and callers of the lock service do not contend for it.
	Slots        string `json:"slots,omitempty"`
	ResizesSlots bool   `json:"resizes_slots,omitempty"`
	// Barrier is the path of a barrier for which the process waits, empty for none, and which it sets and removes if SetsBarrier is set.
	// Double is the path of a double barrier of DoubleSize members, of whose rounds the process is a member. Only this library has them.
	Barrier     string `json:"barrier,omitempty"`
	SetsBarrier bool   `json:"sets_barrier,omitempty"`
	Double      string `json:"double,omitempty"`
	DoubleSize  int    `json:"double_size,omitempty"`
	// Service has the URLs of the replicas of a lock service, through proxies, and Bearer the token for them. The process then
	// uses them instead of Servers.
	Service []string `json:"service,omitempty"`
	Bearer  string   `json:"bearer,omitempty"`

	// Waiters and Holds are load on one additional client of the process: that many contenders of each path, and that many
	// uncontended locks below HoldsAt, which it holds and acquires again after a loss.
	Waiters int    `json:"waiters,omitempty"`
	Holds   int    `json:"holds,omitempty"`
	HoldsAt string `json:"holds_at,omitempty"`

	// Group is the path of a group of which the process is a member, empty for none.
	Group string `json:"group,omitempty"`

	// Schedules is the parent of schedules of which the process is a replica, one after the other, empty for none.
	Schedules string `json:"schedules,omitempty"`

	// Assignment is the path of an assignment of which the process is a member, empty for none.
	Assignment string `json:"assignment,omitempty"`

	// Tokenless reports whether the library has no tokens. The instant of the grant, by the contender's clock, replaces them in
	// the history and in the registers, so that stale writes can be recognised. This works only within a run: a real resource
	// could not check such instants.
	Tokenless bool `json:"tokenless,omitempty"`

	// Probe makes the process acquire each path once, release it and end.
	Probe bool `json:"probe,omitempty"`
}

// Nodes of recipes, below the root of all paths.
const (
	GroupNode     = "/members"
	SchedulesNode = "/schedules"
	DelayedNode   = "/delayed"
	SlotsNode     = "/slots"
	DoubleNode    = "/double"

	AssignmentNode = "/assignment"
)

// Exercise has the process exercise all recipes: on some of its paths and on nodes below root, together with other processes that
// have sessions. The double barrier is of two or three members, and if possible of fewer than there are processes, so that
// rounds go on while one of them is down.
func (s *Spec) Exercise(root string, paths []string, withSessions int) {
	s.Several, s.Permits, s.ReadWrite, s.Elections = paths, paths[1:2], paths[2:], paths
	s.Group, s.Schedules, s.Delayed = root+GroupNode, root+SchedulesNode, root+DelayedNode
	s.Assignment = root + AssignmentNode
	isFirst := strings.HasPrefix(s.Name, "c1.")
	s.Slots, s.ResizesSlots = root+SlotsNode, isFirst
	s.Barrier, s.SetsBarrier = root+"/barrier", isFirst
	s.Double, s.DoubleSize = root+DoubleNode, min(3, withSessions, max(2, withSessions-1))
}

// Commands that a worker reads from its standard input.
const (
	// Stop makes it complete its operations, acquire a lock once more with each client, without a timeout, release everything,
	// and report Stopped. All faults are healed by then: a client that is not granted a lock is starved. The clients stay connected.
	Stop = "stop"
	// Close makes it close its clients after that, and end with status 0. It reports each client that still has a node.
	Close = "close"
	// Avoid PATH DURATION makes it begin no operation on a path for that long.
	Avoid = "avoid"
	// Cancel PATH cancels all its waiters on a path at the same time. They fail with the error "cancelled".
	Cancel = "cancel"
	// Extend ATTEMPT DURATION makes it hold the grant of an attempt for that long from now, unless it loses it. A contender
	// that cannot do so ignores the command; then fewer faults hit it while it holds.
	Extend = "extend"
	// Step DURATION steps the wall clock of the process, forward or back. Only contenders of torture.BuildStepping receive it.
	Step = "step"
)
