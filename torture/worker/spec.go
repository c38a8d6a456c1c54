// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"github.com/lockkeeper/lockkeeper/internal/history"
)

// SpecVariable is the environment variable in which a worker process finds its Spec, in JSON.
const SpecVariable = "LOCKKEEPER_TORTURE_WORKER"

// A Spec is what a worker process is told to do.
type Spec struct {
	Name     string          `json:"name"`     // to be said in every event
	Servers  []string        `json:"servers"`  // host:port of each, by a way that faults are on
	Paths    []string        `json:"paths"`    // to contend for
	Timeout  history.Instant `json:"timeout"`  // of sessions, or of what stands for them
	Began    int64           `json:"began"`    // CLOCK_MONOTONIC at the beginning of the run, in nanoseconds
	First    int             `json:"first"`    // number of its first attempt; it has a million
	Clients  int             `json:"clients"`  // that contend at the same time, with a session each
	Register string          `json:"register"` // host:port of the registers
	Seed     uint64          `json:"seed"`     // of its dice
	Harness  int             `json:"harness"`  // process id of the harness

	// Waiters and Holds are load on one further client of the process: so many contenders of each path, and so many locks
	// below HoldsAt that no other process contends for, which it holds and acquires again when it loses them.
	Waiters int    `json:"waiters,omitempty"`
	Holds   int    `json:"holds,omitempty"`
	HoldsAt string `json:"holds_at,omitempty"`

	// Tokenless says that the library gives out no tokens. The instant at which a contender knew of its grant stands in
	// their place, in the history and in the registers, so that late writes can be told from others. It is the run's own
	// and nothing that a resource could check.
	Tokenless bool `json:"tokenless,omitempty"`

	// Visit has it acquire each path once, give it back and end.
	Visit bool `json:"visit,omitempty"`
}

// Words that a contender reads from its standard input.
const (
	// Stop has it finish what it has asked for, then ask with each client once more, for as long as it takes, give back what
	// it has, and end with status 0. Everything is healed then: who is not granted anything any more has starved.
	Stop = "stop"
	// Rest PATH DURATION has it begin nothing at a path for a while.
	Rest = "rest"
	// Cancel PATH cancels all that it waits for at a path, at the same moment. It fails as "cancelled".
	Cancel = "cancel"
	// Keep ATTEMPT DURATION has it hold what it was granted in an attempt for that long from now, unless it loses it. A
	// contender that cannot do so ignores the word, and is harder to hit.
	Keep = "keep"
	// Step DURATION steps the wall clock that it reads, forward or back. Only contenders that are said to hear it.
	Step = "step"
)
