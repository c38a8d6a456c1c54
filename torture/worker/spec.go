// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"github.com/lockkeeper/lockkeeper/internal/history"
)

// SpecVariable is the environment variable in which a worker process finds its Spec, in JSON.
const SpecVariable = "LOCKKEEPER_TORTURE_WORKER"

// A Spec configures a worker process.
type Spec struct {
	Name     string          `json:"name"`     // to be used in every event
	Servers  []string        `json:"servers"`  // host:port of each, through proxies that inject faults
	Paths    []string        `json:"paths"`    // to contend for
	Timeout  history.Instant `json:"timeout"`  // of sessions, or of their equivalent
	Began    int64           `json:"began"`    // CLOCK_MONOTONIC at the beginning of the run, in nanoseconds
	First    int             `json:"first"`    // number of its first attempt; it has a million
	Clients  int             `json:"clients"`  // that contend at the same time, with a session each
	Register string          `json:"register"` // host:port of the registers
	Seed     uint64          `json:"seed"`     // of its generator
	Harness  int             `json:"harness"`  // process id of the harness

	// Waiters and Holds are load on one additional client of the process: that many contenders of each path, and that many
	// uncontended locks below HoldsAt, which it holds and acquires again after a loss.
	Waiters int    `json:"waiters,omitempty"`
	Holds   int    `json:"holds,omitempty"`
	HoldsAt string `json:"holds_at,omitempty"`

	// Tokenless reports that the library has no tokens. The instant at which a contender learned of its grant replaces them in
	// the history and in the registers, so that stale writes can be recognised. Only the run can do this: no resource could
	// check such instants.
	Tokenless bool `json:"tokenless,omitempty"`

	// Visit makes the process acquire each path once, release it and end.
	Visit bool `json:"visit,omitempty"`
}

// Commands that a worker reads from its standard input.
const (
	// Stop makes it complete its operations, acquire a lock with each client once more, for as long as that takes, release
	// everything, and end with status 0. All faults are healed by then: a client that is not granted anything has starved.
	Stop = "stop"
	// Rest PATH DURATION makes it begin no operation at a path for a while.
	Rest = "rest"
	// Cancel PATH cancels all its waiters at a path, at the same time. They fail as "cancelled".
	Cancel = "cancel"
	// Keep ATTEMPT DURATION makes it hold the grant of an attempt for that long from now, unless it loses it. A contender
	// that cannot do so ignores the command, and is harder to hit.
	Keep = "keep"
	// Step DURATION steps the wall clock that it reads, forward or back. It is sent only to contenders that support it.
	Step = "step"
)
