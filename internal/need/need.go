// SPDX-License-Identifier: Apache-2.0

// Package need ends tests that need what the machine does not have.
package need

import (
	"os"
	"os/exec"
	"testing"
)

// Lacking ends a test that cannot run on this machine, for a reason. The test is skipped, and fails in CI, so that a successful
// run there has run every test.
func Lacking(tb testing.TB, format string, args ...any) {
	tb.Helper()
	format = "not run: " + format
	if CI() {
		tb.Fatalf(format, args...)
	}
	tb.Skipf(format, args...)
}

// Program returns the path of a program. Without it the test ends as lacking; advice names the remedy.
func Program(tb testing.TB, name, advice string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Lacking(tb, "%v: %s", err, advice)
	}
	return path
}

// NoRaceDetector skips a test of a crowd under the race detector, where it takes seven times as long: make test finds the tests that
// call this themselves, and runs them without it. Smaller tests of the package run the same code with it.
func NoRaceDetector(tb testing.TB) {
	tb.Helper()
	if RaceDetector {
		tb.Skip("make test runs it without the race detector")
	}
}

// CI reports whether the environment variable CI is set to a value other than "", "0" and "false".
func CI() bool {
	switch os.Getenv("CI") {
	case "", "0", "false":
		return false
	}
	return true
}
