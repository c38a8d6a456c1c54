// SPDX-License-Identifier: Apache-2.0

// Package fencetest is the suite that a guard must pass before data relies on it: the guard refuses older tokens, stores the
// newest token that it admitted, and makes the check and the write one step.
//
//	func TestGuard(t *testing.T) {
//		fencetest.Run(t, func(t *testing.T) fencetest.Subject {
//			state := t.TempDir()
//			return fencetest.Subject{Open: func(t *testing.T) fencetest.Guarded { return open(t, state) }}
//		})
//	}
//
// A guard has limits: a database stores values up to a length, an append-only store has no reset. Declare them in the
// [Subject]. The suite stays within them, and checks that the guard reports an error for values and names outside them.
//
// # What it does not promise
//
//   - Races are provoked, not enumerated: a guard with a very small window between check and write can pass. Repeated runs
//     detect it sooner or later, and a failure names the seed of its round. On a single processor, the suite does not detect
//     a guard that never yields in that window.
//   - A write that continues after it has returned is detected if it lands while the property runs, a quarter of a second.
//   - A fence that expires, or that is forgotten for the fences of other resources, is detected if that happens in a run: within a
//     few seconds, or with 200 resources. A key with a longer time to live, and a larger cache, pass.
//   - The suite sees what a new process sees. It does not see what a power failure removes from a disk that reported a sync
//     too early, nor what a fail-over to a lagging replica loses.
package fencetest

import (
	"context"
	"testing"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// Guarded is a set of named resources behind the guard under test; their values are strings. Its methods may be called
// concurrently.
type Guarded interface {
	// Write makes value the value of resource, if the guard admits token. It refuses an older token with a
	// [*fencing.StaleError], a token of another history with a [*fencing.HistoryError], and an invalid token with an error
	// that wraps [fencing.ErrInvalid]. The error about a name that [fencing.CheckResource] refuses is none of these, and its
	// text names the resource.
	Write(ctx context.Context, resource string, token fencing.Token, value string) error

	// Value returns the value that was written last, or "" if none was.
	Value(ctx context.Context, resource string) (string, error)

	// Reset is the reset by an operator: the guard discards the newest token of resource. Whether the value remains is the
	// guard's decision. See [Subject.NoReset].
	Reset(ctx context.Context, resource string) error
}

// A Subject opens the guard under test and declares its limits. All fields but Open are optional.
type Subject struct {
	// Open returns the guard as a process that starts now sees it. All guards that one Subject opens share the stored state,
	// and nothing else. Guards that were opened earlier remain in use.
	Open func(t *testing.T) Guarded

	// OpenHistory is Open for a guard of tokens of the named history. The guard that Open returns has no history, and checks
	// none. If OpenHistory is nil, for a guard that stores no histories, the properties about histories are skipped.
	OpenHistory func(t *testing.T, history string) Guarded

	// Crash performs a Write whose process dies after the check and before the write, and returns when that process is dead.
	// If Crash is nil, for a guard that has no such moment, the properties about a crash are skipped.
	Crash func(t *testing.T, g Guarded, resource string, token fencing.Token, value string)

	// Uncertain reports whether an error of Write leaves the outcome unknown: the value was written, or will be, or neither.
	// After every other error of Write nothing was written, and nothing will be. If Uncertain is nil, every error of a write
	// whose context ended counts as uncertain.
	Uncertain func(err error) bool

	// Volatile declares that the state ends with its process, as a bare [fencing.Gate]'s does. The properties about a
	// restart are then skipped. A guard that loses its state and does not declare it fails them.
	Volatile bool

	// NoReset declares that the guard has no reset. The suite does not call Reset, and skips the properties about resets.
	NoReset bool

	// NoEmptyValue declares that the guard cannot store the empty value. Writing it must be an error that changes nothing.
	NoEmptyValue bool

	// MaxName is the length in bytes of the longest name that the guard accepts, at least 32. A longer one must be an error.
	// Default: 512, the limit of [fencing.CheckResource].
	MaxName int

	// MaxValue is the length in bytes of the longest value that the guard accepts, at least 32. Writing a longer one must be
	// an error that changes nothing. Default: the guard accepts values of 512 bytes, and the suite writes none longer.
	MaxValue int

	_ struct{}
}

// The default and the minimum of the limits, in bytes: the suite's own names and values stay within the minimum.
const defaultLimit, minLimit = 512, 32

// Run checks each property in a subtest, whose name states the promise. For each it calls subject, which returns a guard
// without any written resource. The subtests run one after another, and the last one checks a resource that was written
// before the first.
func Run(t *testing.T, subject func(t *testing.T) Subject) {
	t.Helper()
	survives := begin(t, subject(t))
	for _, property := range properties {
		t.Run(property.name, func(t *testing.T) {
			s := subject(t)
			if s.Open == nil {
				t.Fatal("fencetest: run: Subject.Open is nil")
			}
			if why := property.needs.unmet(s); why != "" {
				t.Skip(why)
			}
			for _, limit := range []*int{&s.MaxName, &s.MaxValue} {
				if *limit == 0 {
					*limit = defaultLimit
				}
				if *limit < minLimit {
					t.Fatalf("fencetest: run: MaxName or MaxValue is %d bytes, want at least %d", *limit, minLimit)
				}
			}
			if s.MaxName > defaultLimit {
				t.Fatalf("fencetest: run: MaxName is %d bytes, want at most %d", s.MaxName, defaultLimit)
			}
			p := &probe{t: t, subject: s}
			p.Guarded = p.open()
			property.check(p)
		})
	}
	t.Run("a fence does not expire while the suite runs", survives)
}

// begin writes a resource of s, and returns the check, at the end of the run, that its fence is there.
func begin(t *testing.T, s Subject) func(t *testing.T) {
	t.Helper()
	if s.Open == nil {
		return func(t *testing.T) { t.Skip("Subject.Open is nil") } //nolint:thelper // it is the test
	}
	p := &probe{t: t, subject: s}
	p.Guarded = p.open()
	err := p.Write(t.Context(), "ledger", 7, "seven")
	return func(t *testing.T) { //nolint:thelper // it is the test
		if err != nil {
			t.Fatalf("write %q with token 7: %v, want it admitted", "ledger", err)
		}
		p.t = t
		if !s.Volatile {
			p.restart()
		}
		p.holds("ledger", "seven")
		p.refuses("ledger", 6, 7)
	}
}

// needs lists the capabilities that a property requires of its subject.
type needs struct {
	restarts  bool // the state outlives the process
	crashes   bool
	resets    bool
	histories bool
	maxValue  bool // it declares MaxValue
}

// unmet returns the reason why a property with these needs is skipped, or "".
func (n needs) unmet(s Subject) string {
	switch {
	case n.restarts && s.Volatile:
		return "the subject's state ends with its process (Volatile)"
	case n.crashes && s.Crash == nil:
		return "Subject.Crash is nil"
	case n.resets && s.NoReset:
		return "the subject has no reset (NoReset)"
	case n.histories && s.OpenHistory == nil:
		return "Subject.OpenHistory is nil"
	case n.maxValue && s.MaxValue == 0:
		return "the subject declares no MaxValue"
	}
	return ""
}
