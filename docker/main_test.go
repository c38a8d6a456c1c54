// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain unsets the variables that choose a backend: the tests of the choice set them, and the
// other tests use every backend.
func TestMain(m *testing.M) {
	for _, name := range []string{"ZK_SERVERS", "ZK_TEST_BACKEND", "CI"} {
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m,
		// net/http keeps a connection that it dialled for a cancelled request, also if its client was closed meanwhile, and
		// closes it after a while.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}
