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
	goleak.VerifyTestMain(m,
		// A connection to the engine that was dialled for a request which was given up comes into the pool of a client that may
		// be closed by then, and ends there after a while. It is net/http's own.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}
