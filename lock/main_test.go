// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// TestMain sets ZK_SERVERS for the examples, which read it as programs do. If it is
// not set already, it names a zktest ensemble in this process.
func TestMain(m *testing.M) {
	if os.Getenv("ZK_SERVERS") != "" {
		os.Exit(m.Run())
	}
	ensemble, err := zktest.Run(context.Background(), nil)
	if err == nil {
		err = os.Setenv("ZK_SERVERS", strings.Join(ensemble.Addrs(), ","))
	}
	status := 1
	if err == nil {
		status = m.Run()
		err = ensemble.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}
