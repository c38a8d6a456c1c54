// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/lockkeeper/lockkeeper/examples/internal/demo"
)

// main runs several brokers and freezes the controller. The example is controller.go.
func main() {
	demo.Main("Brokers elect a controller, which assigns partitions in ZooKeeper. Each write is checked against its epoch.",
		func(ctx context.Context, p *demo.Process) error { return run(ctx, p.Name, p.Servers, p.SessionTimeout) })
}
