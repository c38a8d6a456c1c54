// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/lockkeeper/lockkeeper/examples/internal/demo"
)

// main runs several brokers and freezes one. The example is controller.go.
func main() {
	demo.Main("Brokers divide partitions. Each write to a partition is checked against its leader epoch.",
		func(ctx context.Context, p *demo.Process) error { return run(ctx, p.Name, p.Servers, p.SessionTimeout) })
}
