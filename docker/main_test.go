// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain forgets what decides where servers run: the tests of that set it
// themselves, and the others go through all there is.
func TestMain(m *testing.M) {
	for _, name := range []string{"ZK_SERVERS", "ZK_TEST_BACKEND", "CI"} {
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
