// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestRunReleasesLeadershipWhenProgramEnds(t *testing.T) {
	srv := zktest.Start(t, nil) // a ZooKeeper server in the test process
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	if err := run(ctx, srv.Addrs()); err != nil { // nil: its node is deleted
		t.Fatal(err)
	}
}
