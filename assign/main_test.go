// SPDX-License-Identifier: Apache-2.0

package assign_test

import (
	"os"
	"testing"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// The examples connect to ZK_SERVERS, as programs do.
func TestMain(m *testing.M) { os.Exit(zktest.MainWithServers(m)) }
