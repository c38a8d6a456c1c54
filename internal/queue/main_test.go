// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"os"
	"testing"

	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestMain(m *testing.M) { os.Exit(zktest.Main(m)) }
