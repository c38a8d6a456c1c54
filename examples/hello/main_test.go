// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"

	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestRunReleasesLeadershipWhenProgramEnds(t *testing.T) {
	srv := zktest.Start(t, nil) // a ZooKeeper server in the test process
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if err := run(ctx, srv.Addrs(), stop); err != nil { // nil: its node is deleted
		t.Fatal(err)
	}
}
