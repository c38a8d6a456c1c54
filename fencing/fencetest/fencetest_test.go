// SPDX-License-Identifier: Apache-2.0

package fencetest_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/fencetest"
)

func TestGateUnderALockPasses(t *testing.T) {
	fencetest.Run(t, func(*testing.T) fencetest.Subject {
		return fencetest.Subject{
			Open:     func(*testing.T) fencetest.Guarded { return newStore(right) },
			Volatile: true,
		}
	})
}

func TestStoreThatOutlivesItsProcessPasses(t *testing.T) {
	fencetest.Run(t, func(*testing.T) fencetest.Subject { return subject(right) })
}

// fault is what is wrong with a store.
type fault string

const (
	right            fault = ""
	swapped          fault = "< and <= exchanged"
	acceptsOlder     fault = "accepts older"
	equality         fault = "compares for equality"
	forgets          fault = "forgets on reopen"
	neverRises       fault = "remembers the first token"
	oneFence         fault = "one fence for all resources"
	foldsCase        fault = "folds case"
	writesFirst      fault = "writes before it checks"
	checksOutside    fault = "checks outside of the lock"
	asFloat          fault = "keeps tokens as floating point"
	asText           fault = "compares tokens as text"
	admitsInvalid    fault = "admits invalid tokens"
	staleInvalid     fault = "calls invalid tokens stale"
	bareStale        fault = "refuses without numbers"
	ignoresContext   fault = "ignores the context"
	anyName          fault = "takes any name"
	noReset          fault = "resets nothing"
	resetsAll        fault = "resets everything"
	lateRaise        fault = "writes, crashes, and only then remembers"
	refusalLowers    fault = "a refused token becomes the newest"
	leavesTornOnFail fault = "a crash leaves half a value"
)

// caught says which property finds which fault.
var caught = map[fault]string{
	swapped:          "an equal token is admitted",
	acceptsOlder:     "an older token is refused with both numbers and the resource stays untouched",
	equality:         "a newer token is admitted and shuts out the one before",
	forgets:          "what was admitted is remembered across a restart",
	neverRises:       "a newer token is admitted and shuts out the one before",
	oneFence:         "resources are independent however alike their names",
	foldsCase:        "resources are independent however alike their names",
	writesFirst:      "an older token is refused with both numbers and the resource stays untouched",
	checksOutside:    "of two writers racing the newer wins",
	asFloat:          "tokens are compared as numbers with all their digits",
	asText:           "tokens are compared as numbers with all their digits",
	admitsInvalid:    "zero and negative tokens are refused as invalid",
	staleInvalid:     "zero and negative tokens are refused as invalid",
	bareStale:        "an older token is refused with both numbers and the resource stays untouched",
	ignoresContext:   "a context that is done is an error and changes nothing",
	anyName:          "a name that is empty or too long or has NUL is an error that says so",
	noReset:          "a reset opens one resource to lower tokens and the guard stands again at once",
	resetsAll:        "a reset opens one resource to lower tokens and the guard stands again at once",
	lateRaise:        "a crash between check and write lets no older token in later",
	refusalLowers:    "nothing but a reset lets an older token in",
	leavesTornOnFail: "a crash between check and write lets no older token in later",
}

const faultVariable = "FENCETEST_FAULT"

func TestBrokenGuardFailsTheSuite(t *testing.T) {
	for broken, property := range caught {
		t.Run(string(broken), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSuiteInAProcessOfItsOwn$", "-test.v")
			cmd.Env = append(os.Environ(), faultVariable+"="+string(broken))
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "the suite passed:\n%s", out)
			name := strings.ReplaceAll(property, " ", "_")
			require.Contains(t, string(out), "--- FAIL: TestSuiteInAProcessOfItsOwn/"+name+" (")
			require.NotContains(t, string(out), "panic:")
		})
	}
}

// It fails: TestBrokenGuardFailsTheSuite runs it and looks at how.
func TestSuiteInAProcessOfItsOwn(t *testing.T) {
	broken := fault(os.Getenv(faultVariable))
	if broken == right {
		t.Skip("started by TestBrokenGuardFailsTheSuite only")
	}
	fencetest.Run(t, func(*testing.T) fencetest.Subject { return subject(broken) })
}

func subject(broken fault) fencetest.Subject {
	s := newStore(broken)
	return fencetest.Subject{
		Open: func(*testing.T) fencetest.Guarded {
			if broken == forgets {
				s.mu.Lock()
				defer s.mu.Unlock()
				clear(s.newest)
			}
			return s
		},
		Crash: func(t *testing.T, _ fencetest.Guarded, resource string, token fencing.Token, value string) {
			t.Helper()
			s.mu.Lock()
			defer s.mu.Unlock()
			switch broken {
			case lateRaise:
				s.values[resource] = value
			case leavesTornOnFail:
				s.values[resource] = value[:1]
			default:
				s.newest[resource] = token
			}
		},
	}
}

// A store keeps values and fences in memory, and has one fault or none.
type store struct {
	fault  fault
	mu     sync.Mutex
	newest map[string]fencing.Token // guarded by mu
	values map[string]string        // guarded by mu
}

func newStore(broken fault) *store {
	return &store{fault: broken, newest: map[string]fencing.Token{}, values: map[string]string{}}
}

func (s *store) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	if err := s.check(ctx, resource); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == writesFirst {
		s.values[resource] = value
	}
	if err := s.admit(s.key(resource), token); err != nil {
		return err
	}
	if s.fault == checksOutside {
		s.mu.Unlock()
		// As long as a write to a disk takes: now this, now that.
		for range rand.IntN(200) {
			runtime.Gosched()
		}
		s.mu.Lock()
	}
	s.values[resource] = value
	return nil
}

// admit is called with mu held.
func (s *store) admit(key string, token fencing.Token) error {
	newest := s.newest[key]
	var gate fencing.Gate
	if err := gate.Reset(newest); err != nil && s.fault != admitsInvalid {
		return err
	}
	err := gate.Admit(token)
	stale := &fencing.StaleError{Token: token, Newest: newest}
	switch s.fault {
	case swapped:
		if err == nil && token == newest {
			err = stale
		}
	case acceptsOlder:
		if errors.Is(err, fencing.ErrStale) {
			return nil
		}
	case equality:
		if err == nil && newest != 0 && token != newest {
			err = stale
		}
	case neverRises:
		if err == nil && newest != 0 {
			return nil
		}
	case asFloat:
		if err != nil && float64(token) == float64(newest) {
			err = nil
		}
	case asText:
		if token.Valid() && newest != 0 {
			err = nil
			if token.String() < newest.String() {
				err = stale
			}
		}
	case admitsInvalid:
		if errors.Is(err, fencing.ErrInvalid) {
			return nil
		}
	case staleInvalid:
		if errors.Is(err, fencing.ErrInvalid) {
			err = stale
		}
	case bareStale:
		if errors.Is(err, fencing.ErrStale) {
			err = fencing.ErrStale
		}
	case refusalLowers:
		if errors.Is(err, fencing.ErrStale) {
			s.newest[key] = token
		}
	}
	if err == nil {
		s.newest[key] = token
	}
	return err
}

func (s *store) Value(ctx context.Context, resource string) (string, error) {
	if err := s.check(ctx, resource); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[resource], nil
}

func (s *store) Reset(ctx context.Context, resource string) error {
	if err := s.check(ctx, resource); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.fault {
	case noReset:
	case resetsAll:
		clear(s.newest)
	default:
		delete(s.newest, s.key(resource))
	}
	return nil
}

func (s *store) check(ctx context.Context, resource string) error {
	if s.fault != anyName && (resource == "" || len(resource) > 512 || strings.Contains(resource, "\x00")) {
		return errors.New("store: resource name is empty, too long or has NUL")
	}
	if s.fault == ignoresContext {
		return nil
	}
	return ctx.Err()
}

func (s *store) key(resource string) string {
	switch s.fault {
	case oneFence:
		return "all"
	case foldsCase:
		return strings.ToLower(resource)
	}
	return resource
}
