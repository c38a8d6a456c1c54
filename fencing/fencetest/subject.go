// SPDX-License-Identifier: Apache-2.0

// Package fencetest is the suite that a guard must pass before data relies on it: the guard refuses older tokens,
// remembers what it admitted, and lets no write slip between its check and the write that follows.
//
//	func TestGuard(t *testing.T) {
//		fencetest.Run(t, func(t *testing.T) fencetest.Subject {
//			state := t.TempDir()
//			return fencetest.Subject{Open: func(t *testing.T) fencetest.Guarded { return open(t, state) }}
//		})
//	}
//
// A guard has limits: a database keeps values up to a length, an append-only store has no reset. State them in the
// [Subject]. The suite keeps within them, and checks that the guard reports what is outside of them.
//
// # What it does not promise
//
//   - Races are provoked, not enumerated: a guard with a very small window between check and write can pass. It fails
//     sooner or later, and a failure names the seed of its round. On a single processor, a guard that never yields in
//     that window is not found.
//   - A write that goes on after it has returned is found if it lands while the property runs, a quarter of a second.
//   - The suite sees what a process that starts anew sees. It does not see what a loss of power takes from a disk that
//     reported a sync too early, nor what a fail-over to a replica that lags takes.
package fencetest

import (
	"context"
	"testing"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// Guarded is a resource of many names behind the guard under test; its values are strings. Its methods may be called
// concurrently.
type Guarded interface {
	// Write makes value the value of resource, if the guard admits token. The refusal of an older token is a
	// [*fencing.StaleError], that of a token of another history a [*fencing.HistoryError], and that of an invalid token
	// wraps [fencing.ErrInvalid]. A name that [fencing.CheckResource] refuses is none of these: the error says that it is
	// about the resource.
	Write(ctx context.Context, resource string, token fencing.Token, value string) error

	// Value returns what was last written, or "" if nothing was.
	Value(ctx context.Context, resource string) (string, error)

	// Reset is the deliberate one, by an operator: the guard forgets the newest token of resource. Whether the value
	// stays is the guard's decision. See [Subject.NoReset].
	Reset(ctx context.Context, resource string) error
}

// A Subject is how to open the guard under test, and its limits. All fields but Open are optional.
type Subject struct {
	// Open returns the guard as a process that starts now sees it: all Opens of one Subject share the stored state, and
	// nothing else. Guards that were opened before stay in use.
	Open func(t *testing.T) Guarded

	// OpenHistory is Open for a guard of tokens of the named history. The guard of Open knows no history, and checks
	// none. Without OpenHistory (nil, for a guard that stores no histories) the properties about histories are skipped.
	OpenHistory func(t *testing.T, history string) Guarded

	// Crash does a Write whose process dies after the check and before the write, and returns once it is dead. Without
	// it (nil, for a guard that has no such moment) the properties about a crash are skipped.
	Crash func(t *testing.T, g Guarded, resource string, token fencing.Token, value string)

	// Uncertain reports whether an error of Write leaves the outcome unknown: the value was written, or will be, or not.
	// After every other error of Write nothing is written, and nothing may be written later. Without it (nil) every error
	// of a write whose context ended counts as uncertain.
	Uncertain func(err error) bool

	// Volatile is for a guard whose state ends with its process, as that of a bare [fencing.Gate] does. The properties
	// about a restart are then skipped: a guard that forgets and does not declare it fails them.
	Volatile bool

	// NoReset is for a guard that has no reset. Its Reset is not called, and the properties about resets are skipped.
	NoReset bool

	// NoEmptyValue is for a guard that cannot store the empty value. Writing it is then an error that changes nothing.
	NoEmptyValue bool

	// MaxName is the length in bytes of the longest name that the guard takes, at least 32. A longer one is an error.
	// Default: 512, the limit of [fencing.CheckResource].
	MaxName int

	// MaxValue is the length in bytes of the longest value that the guard takes, at least 32. Writing a longer one is
	// an error that changes nothing. Default: the guard takes values of 512 bytes, and the suite writes none longer.
	MaxValue int

	_ struct{}
}

// The default and the least of the limits, in bytes: the suite's own names and values keep within the least.
const defaultLimit, leastLimit = 512, 32

// Run has the guard show each property in a subtest, whose name states the promise. It calls subject for each of them, for
// a guard to which nothing has been written. The subtests run one after another.
func Run(t *testing.T, subject func(t *testing.T) Subject) {
	t.Helper()
	for _, property := range properties {
		t.Run(property.name, func(t *testing.T) {
			s := subject(t)
			if s.Open == nil {
				t.Fatal("fencetest: the Subject has no Open")
			}
			if why := property.needs.unmet(s); why != "" {
				t.Skip(why)
			}
			for _, limit := range []*int{&s.MaxName, &s.MaxValue} {
				if *limit == 0 {
					*limit = defaultLimit
				}
				if *limit < leastLimit {
					t.Fatalf("fencetest: the Subject has a limit of %d bytes, want at least %d", *limit, leastLimit)
				}
			}
			if s.MaxName > defaultLimit {
				t.Fatalf("fencetest: the Subject takes names of %d bytes, want at most %d", s.MaxName, defaultLimit)
			}
			p := &probe{t: t, subject: s}
			p.Guarded = p.open()
			property.check(p)
		})
	}
}

// needs is what a subject must have for a property to be checked.
type needs struct {
	restarts  bool // its state outlives the process
	crashes   bool
	resets    bool
	histories bool
	maxValue  bool // it states the longest value
}

// unmet returns why a property with these needs is not checked, or "".
func (n needs) unmet(s Subject) string {
	switch {
	case n.restarts && s.Volatile:
		return "the subject's state ends with its process (Volatile)"
	case n.crashes && s.Crash == nil:
		return "the subject has no Crash"
	case n.resets && s.NoReset:
		return "the subject has no reset (NoReset)"
	case n.histories && s.OpenHistory == nil:
		return "the subject has no OpenHistory"
	case n.maxValue && s.MaxValue == 0:
		return "the subject states no MaxValue"
	}
	return ""
}
