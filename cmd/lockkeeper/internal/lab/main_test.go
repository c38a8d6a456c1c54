// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"testing"

	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(zktest.Main(m))
}
