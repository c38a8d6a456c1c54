// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path/filepath"

	"github.com/lockkeeper/lockkeeper/examples/internal/demo"
)

// main runs several workers and freezes the one that leads. The example is worker.go.
func main() {
	demo.Main("A leader processes jobs in SQLite. Its writes carry its token, and the database checks it.",
		func(ctx context.Context, p *demo.Process) error {
			return run(ctx, p.Name, p.Servers, p.SessionTimeout, filepath.Join(p.Dir, "jobs.db"))
		})
}
