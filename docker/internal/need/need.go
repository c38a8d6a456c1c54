// SPDX-License-Identifier: Apache-2.0

// Package need ends tests that need a backend which the machine does not have. The docker module does not require the root, whose
// package of this name has the same rule for programs.
package need

import (
	"os"
	"testing"
)

// The environment when the process began. Tests of the choice of a backend change it.
var (
	ci     = CI()
	wanted = os.Getenv("ZK_TEST_BACKEND")
)

// CI reports whether the environment variable CI is set to a value other than "", "0" and "false".
func CI() bool {
	switch os.Getenv("CI") {
	case "", "0", "false":
		return false
	}
	return true
}

// Backend skips a test if err reports that a backend is missing. In CI the test fails, so that a successful run there has run
// every test, unless ZK_TEST_BACKEND named the other backend.
func Backend(tb testing.TB, backend string, err error) {
	tb.Helper()
	switch {
	case err == nil:
	case ci && (wanted == "" || wanted == backend):
		tb.Fatalf("%s: %v: in CI a missing backend fails, unless ZK_TEST_BACKEND names the other one", backend, err)
	default:
		tb.Skipf("not run: %v", err)
	}
}
