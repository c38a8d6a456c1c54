// SPDX-License-Identifier: Apache-2.0

//go:build unix && stepclock

package main

import (
	"os"

	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// A build whose clock can be stepped is only a contender: all packages above time are compiled for it, and the harness would be
// half of them.
func main() { contend(os.Getenv(worker.SpecVariable)) }
