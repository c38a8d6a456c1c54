// SPDX-License-Identifier: Apache-2.0

package fencetest_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/fencetest"
	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/internal/need"
)

func TestGateUnderLockPasses(t *testing.T) {
	need.NoRaceDetector(t)
	fencetest.Run(t, func(*testing.T) fencetest.Subject {
		return fencetest.Subject{
			Open:     func(*testing.T) fencetest.Guarded { return newStore(right) },
			Volatile: true,
		}
	})
}

func TestPersistentStorePasses(t *testing.T) {
	need.NoRaceDetector(t)
	fencetest.Run(t, func(*testing.T) fencetest.Subject { return subject(right) })
}

// A limited guard accepts short names and short non-empty values only, and has no reset.
type limited struct{ fencetest.Guarded }

const longestName, longestValue = 100, 40

func (l limited) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	if value == "" || len(value) > longestValue {
		return fmt.Errorf("store: write a value of %d bytes, want 1 to %d", len(value), longestValue)
	}
	if err := shortName(resource); err != nil {
		return err
	}
	return l.Guarded.Write(ctx, resource, token, value)
}

func (l limited) Value(ctx context.Context, resource string) (string, error) {
	if err := shortName(resource); err != nil {
		return "", err
	}
	return l.Guarded.Value(ctx, resource)
}

func (l limited) Reset(context.Context, string) error { panic("Reset was called") }

func shortName(resource string) error {
	if len(resource) > longestName {
		return fmt.Errorf("store: the name of the resource has %d bytes, want at most %d", len(resource), longestName)
	}
	return nil
}

func TestGuardThatDeclaresItsLimitsPasses(t *testing.T) {
	need.NoRaceDetector(t)
	fencetest.Run(t, func(*testing.T) fencetest.Subject {
		s := newStore(right)
		return fencetest.Subject{
			Open:         func(*testing.T) fencetest.Guarded { return limited{s} },
			NoReset:      true,
			NoEmptyValue: true,
			MaxName:      longestName,
			MaxValue:     longestValue,
		}
	})
}

func TestBrokenGuardFailsSuite(t *testing.T) {
	for broken, property := range caught {
		t.Run(string(broken), func(t *testing.T) {
			if broken == expires { // which takes a whole run
				out, err := child.Test(t, "TestSuiteInChildProcess", "", broken)
				require.Error(t, err)
				require.Contains(t, out, "--- FAIL: TestSuiteInChildProcess/"+strings.ReplaceAll(property, " ", "_"))
				return
			}
			child.RequireFailure(t, "TestSuiteInChildProcess", property, broken)
		})
	}
}

// This test fails by design: TestBrokenGuardFailsSuite runs it in a child process and checks how it fails.
func TestSuiteInChildProcess(t *testing.T) {
	var broken fault
	child.Task(t, &broken)
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))) // on one processor, the suite does not detect a guard that never yields
	fencetest.Run(t, func(*testing.T) fencetest.Subject { return subject(broken) })
}
