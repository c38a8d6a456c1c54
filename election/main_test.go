// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"os"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/zkserver"
)

func TestMain(m *testing.M) { os.Exit(zkserver.Main(m)) }
