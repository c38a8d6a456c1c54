// SPDX-License-Identifier: Apache-2.0

package election

import (
	"errors"
	"fmt"
)

// ErrNoLeader is returned by Leader when there is no candidate.
var ErrNoLeader = errors.New("no leader")

// ErrOverrun is returned by Run when the work did not return within the stop timeout
// after its context was done. The work may still be running: the process should exit.
var ErrOverrun = errors.New("work did not stop in time")

// A LeaderError names the leader that a candidate waited for until the deadline of its context. It matches
// context.DeadlineExceeded.
type LeaderError struct {
	Path   string // of the election
	Leader Leader // the first candidate in the queue shortly before the deadline, without a Value
	Err    error  // the reason why Campaign stopped waiting
}

// Error returns the election, its leader, and the time since which it has been a candidate.
func (e *LeaderError) Error() string {
	s := fmt.Sprintf("campaign %s: led by %q", e.Path, e.Leader.Owner)
	if !e.Leader.Since.IsZero() {
		s += ", a candidate since " + e.Leader.Since.Format("2006-01-02 15:04:05Z07:00")
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *LeaderError) Unwrap() error { return e.Err }
