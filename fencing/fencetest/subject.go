// SPDX-License-Identifier: Apache-2.0

// Package fencetest is the suite that a guard must pass before anybody relies on it: that it refuses the late, remembers
// what it admitted, and lets nothing slip between its check and the write.
//
//	func TestGuard(t *testing.T) {
//		fencetest.Run(t, func(t *testing.T) fencetest.Subject {
//			state := t.TempDir()
//			return fencetest.Subject{Open: func(t *testing.T) fencetest.Guarded { return open(t, state) }}
//		})
//	}
//
// # What it does not promise
//
//   - Races are provoked, not enumerated: a guard whose window between check and write is very small can pass. It
//     fails sooner or later; a failure names the seed of its round.
//   - It sees what a process that starts anew sees. What a loss of power takes from a disk that lied about a sync, or a
//     fail-over from a replica that lagged, is outside of it.
package fencetest

import (
	"context"
	"testing"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// Guarded is a resource of many names behind the guard under test; its values are strings. Its methods may be called
// concurrently.
type Guarded interface {
	// Write makes value the value of resource, if the guard admits token. A refusal of an older token is a
	// [*fencing.StaleError], of one that is not valid wraps [fencing.ErrInvalid]. A name that is empty, longer than 512
	// bytes or has a NUL in it is neither: the error says that it is about the resource.
	Write(ctx context.Context, resource string, token fencing.Token, value string) error

	// Value returns what was last written, or "" if nothing was.
	Value(ctx context.Context, resource string) (string, error)

	// Reset is the operator's deliberate one: it forgets the newest token of resource, whatever it was. What becomes of
	// the value is the guard's affair.
	Reset(ctx context.Context, resource string) error
}

// A Subject says how to open the guard under test.
type Subject struct {
	// Open returns the guard as a process that starts now sees it: all Opens of one Subject share the stored state, and
	// nothing else. What was opened before may still be in use.
	Open func(t *testing.T) Guarded

	// Crash does a Write whose process dies after the check and before the write, and returns once it is dead. Without
	// it (nil, for a guard that has no such moment) the properties about a crash are skipped.
	Crash func(t *testing.T, g Guarded, resource string, token fencing.Token, value string)

	// Volatile says that the state ends with the process, as that of a bare [fencing.Gate] does. The properties about a
	// restart are then skipped: a guard that forgets and does not say so fails them.
	Volatile bool

	_ struct{}
}

// Run has the guard show each property in a subtest of its own, whose name says what is promised. It calls subject for
// each of them, for one on which nothing has been written. The subtests run one after another.
func Run(t *testing.T, subject func(t *testing.T) Subject) {
	t.Helper()
	for _, property := range properties {
		t.Run(property.name, func(t *testing.T) {
			s := subject(t)
			switch {
			case property.restarts && s.Volatile:
				t.Skip("the subject says that its state ends with its process")
			case property.crashes && s.Crash == nil:
				t.Skip("the subject has no Crash")
			}
			p := &probe{t: t, subject: s}
			p.Guarded = p.open()
			property.check(p)
		})
	}
}
