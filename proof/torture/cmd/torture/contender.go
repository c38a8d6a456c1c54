// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"os"

	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// contend makes this process a contender.
func contend(spec string) {
	if err := worker.Run(spec, os.Stdin, os.Stdout); err != nil {
		progress("%v", err)
		os.Exit(1)
	}
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, "torture: "+format+"\n", args...) }
